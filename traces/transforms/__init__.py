"""What can be done to any trace, each in a function of its own: a trace in, a new one out, its report says what changed.

The order is fixed, and is that of the fields of `Transforms`: the slice of time, the sample, the limits of length; then
`trace.num_requests` of what is left; then users and priorities; then `trace.rate`; then the day's curve; then
`trace.duration_s`; then deadlines, which are relative to the final arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from traces.distributions import distribution
from traces.trace import Trace
from traces.transforms.assign import with_deadlines, with_priorities, with_users
from traces.transforms.clip import ACTIONS, clipped
from traces.transforms.day import DayCurve, along_day
from traces.transforms.sample import sampled
from traces.transforms.seconds import seconds
from traces.transforms.slice import sliced


@dataclass(frozen=True)
class Transforms:
    """The options `trace.from_s` and so on; None leaves the trace as it is. Raises ValueError for bad values."""

    from_s: float | None = None
    to_s: float | None = None
    sample: float | None = None
    max_prompt_tokens: int | None = None
    max_output_tokens: int | None = None
    clip: str | None = None  # None: "clip"
    users: str | float | None = None
    priority: str | float | None = None
    day_curve: str | Sequence[float] | None = None
    deadline_s: str | float | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("from_s", 0.0, 1e12), ("to_s", 0.0, 1e12), ("sample", 0.0, 1.0)):
            value = getattr(self, name)
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (numeric and least <= value <= most and (value or name == "from_s")):
                right = "a share, above 0 and at most 1" if name == "sample" else "seconds"
                raise ValueError(f"trace.{name} is {value}, must be {right}")
        if self.to_s is not None and self.to_s <= (self.from_s or 0):
            raise ValueError(f"trace.to_s is {self.to_s}, must be more than trace.from_s, {self.from_s or 0}")
        for name in ("max_prompt_tokens", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"trace.{name} is {value}, must be an integer of at least 1")
        if self.clip is not None and self.clip not in ACTIONS:
            raise ValueError(f"trace.clip={self.clip}: allowed are {', '.join(ACTIONS)}")
        for name in ("users", "priority"):
            if getattr(self, name) is not None:
                distribution(getattr(self, name), f"trace.{name}", least=None)
        if self.deadline_s is not None:
            seconds(self.deadline_s, "trace.deadline_s")
        if self.day_curve is not None:
            DayCurve.of(self.day_curve)

    @property
    def selects(self) -> bool:
        """Whether requests may be left out."""
        dropping = self.clip == "drop" and (self.max_prompt_tokens is not None or self.max_output_tokens is not None)
        return dropping or any(value is not None for value in (self.from_s, self.to_s, self.sample))

    def select(self, trace: Trace, seed: int) -> Trace:
        """The requests that stay, with the lengths they keep; the first arrives at 0."""
        if self.from_s is not None or self.to_s is not None:
            trace = sliced(trace, self.from_s, self.to_s)
        if self.sample is not None:
            trace = sampled(trace, self.sample, seed)
        return clipped(trace, self.max_prompt_tokens, self.max_output_tokens, self.clip or "clip")

    def assign(self, trace: Trace, seed: int) -> Trace:
        """Users and priorities drawn anew."""
        if self.users is not None:
            trace = with_users(trace, distribution(self.users, "trace.users"), seed)
        if self.priority is not None:
            trace = with_priorities(trace, distribution(self.priority, "trace.priority", least=None), seed)
        return trace

    def along_day(self, trace: Trace) -> Trace:
        """Arrivals moved along the day's curve."""
        return trace if self.day_curve is None else along_day(trace, DayCurve.of(self.day_curve))

    def even_s(self, time_s: float) -> float:
        """Where the time `time_s` of the curved day lies before `along_day`."""
        return time_s if self.day_curve is None else float(DayCurve.of(self.day_curve).load(time_s))

    def set_deadlines(self, trace: Trace, seed: int) -> Trace:
        """Deadlines drawn anew."""
        return (
            trace if self.deadline_s is None else with_deadlines(trace, seconds(self.deadline_s, "trace.deadline_s"), seed)
        )


OPTIONS = tuple(field.name for field in fields(Transforms))
__all__ = ["OPTIONS", "DayCurve", "Transforms", "along_day", "clipped", "sampled", "sliced"]
