"""Step-latency models: how long a step takes, from what it consists of."""

from twin.latency.make import make_latency
from twin.latency.model import LatencyModel

__all__ = ["LatencyModel", "make_latency"]
