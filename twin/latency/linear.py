"""A step as a sum of six terms."""

import math

from twin.core.batch import Features
from twin.latency.parameters import non_negative
from twin.latency.piecewise import PiecewiseLatency, Segment


class LinearLatency(PiecewiseLatency):
    """step = base + (mixed if the step holds prefill) + per_seq * sequences + per_prefill_token * prefill tokens
    + per_decode_token * decode tokens + per_context_token * (sum over sequences of the context after the step).

    All in seconds; each is 0 unless given, and at least one must be above 0.
    """

    name = "linear"

    def __init__(
        self,
        base_s: float = 0.0,
        mixed_s: float = 0.0,
        per_seq_s: float = 0.0,
        per_prefill_token_s: float = 0.0,
        per_decode_token_s: float = 0.0,
        per_context_token_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.base_s = non_negative("latency=linear", "base_s", base_s)
        self.mixed_s = non_negative("latency=linear", "mixed_s", mixed_s)
        self.per_seq_s = non_negative("latency=linear", "per_seq_s", per_seq_s)
        self.per_prefill_token_s = non_negative("latency=linear", "per_prefill_token_s", per_prefill_token_s)
        self.per_decode_token_s = non_negative("latency=linear", "per_decode_token_s", per_decode_token_s)
        self.per_context_token_s = non_negative("latency=linear", "per_context_token_s", per_context_token_s)
        if not any(self.fields().values()):
            raise ValueError("latency=linear: all fields are 0, so time would not advance; give at least base_s=1.0")

    def fields(self) -> dict[str, float]:
        """The six fields, by name."""
        return {name: value for name, value in vars(self).items() if name.endswith("_s")}

    def decode_segments(self, sequences: int) -> list[Segment]:
        fixed_s = self.base_s + self.per_seq_s * sequences + self.per_decode_token_s * sequences
        return [Segment(math.inf, fixed_s, self.per_context_token_s)]

    def mixed_step_s(self, features: Features) -> float:
        return (
            self.base_s
            + self.mixed_s
            + self.per_seq_s * features.sequences
            + self.per_prefill_token_s * features.prefill_tokens
            + self.per_decode_token_s * features.decode_tokens
            + self.per_context_token_s * features.context_tokens
        )

    def describe(self) -> dict:
        return {"name": self.name, **self.fields()}
