"""A laboratory for LLM-serving scheduling: a simulator and a real engine that share one scheduler and its policies."""

from twin import compiled

__version__ = "0.1.0"

compiled.use()
