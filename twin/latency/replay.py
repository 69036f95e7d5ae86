"""Recorded step durations, played back in order."""

from collections.abc import Iterable

from twin.core.batch import Features
from twin.latency.model import LatencyError, LatencyModel
from twin.latency.parameters import positive


class ReplayLatency(LatencyModel):
    """Each step takes the next recorded duration, whatever it consists of.

    It serves the lockstep comparison: with an engine's recorded durations the simulator must decide as the engine did.
    The model has a position and belongs to one run.
    """

    name = "replay"

    def __init__(self, durations_s: Iterable[float], source: str = "") -> None:
        self.source = source
        self.durations_s = [
            positive("latency=replay", f"duration of step {step}", value) for step, value in enumerate(durations_s, 1)
        ]
        self.position = 0
        if not self.durations_s:
            raise ValueError(f"latency=replay: no step durations in {source or 'what was given'}")

    def step_s(self, features: Features) -> float:
        if self.position >= len(self.durations_s):
            raise LatencyError(
                f"latency=replay: {len(self.durations_s)} steps are recorded in {self.source or 'the list'}, "
                f"the run wants step {self.position + 1}"
            )
        self.position += 1
        return self.durations_s[self.position - 1]

    def take_back(self, steps: int) -> None:
        self.position -= steps

    def describe(self) -> dict:
        return {"name": self.name, "source": self.source, "steps": len(self.durations_s)}
