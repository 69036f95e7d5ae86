"""Models whose decode steps are piecewise linear in the context length."""

import math
from typing import NamedTuple

from twin.core.batch import Features
from twin.latency.adding_up import add_up
from twin.latency.model import LatencyModel, checked


class Segment(NamedTuple):
    """A piece of the line: below `below_tokens` of context a step takes fixed_s + per_context_token_s * context."""

    below_tokens: float
    fixed_s: float
    per_context_token_s: float


class PiecewiseLatency(LatencyModel):
    """Decode steps of a given batch size as straight pieces over the summed context.

    All that depends on the batch size alone is worked out once and kept, so that a decode step costs one multiplication
    and one addition.
    """

    def __init__(self) -> None:
        self._segments: dict[int, list[Segment]] = {}

    def decode_segments(self, sequences: int) -> list[Segment]:
        """The pieces for a batch of `sequences`, by ascending context; the last is open to infinity."""
        raise NotImplementedError

    def mixed_step_s(self, features: Features) -> float:
        """Seconds of a step that holds prefill."""
        raise NotImplementedError

    def step_s(self, features: Features) -> float:
        if features.prefill_tokens:
            return checked(self.mixed_step_s(features), self.name, features)
        return self.decode_step_s(features.sequences, features.context_tokens)

    def segments(self, sequences: int) -> list[Segment]:
        """`decode_segments`, remembered, and refused if a step would take no time."""
        known = self._segments.get(sequences)
        if known is None:
            known = self.decode_segments(sequences)
            low: float = sequences  # the least context there is: one token each
            for segment in known:
                high = min(segment.below_tokens, 1e15)
                for context in (low, high):
                    checked(segment.fixed_s + segment.per_context_token_s * context, self.name, (sequences, int(context)))
                low = max(low, high)
            self._segments[sequences] = known
        return known

    def decode_step_s(self, sequences: int, context_tokens: int) -> float:
        for below_tokens, fixed_s, per_token_s in self._segments.get(sequences) or self.segments(sequences):
            if context_tokens < below_tokens:
                return fixed_s + per_token_s * context_tokens
        raise AssertionError("the last piece is open")

    def stretch(self, start_s: float, sequences: int, context_tokens: int, steps: int, until_s: float) -> list[float]:
        ends: list[float] = []
        context, end = context_tokens, context_tokens + steps * sequences
        for below_tokens, fixed_s, per_token_s in self._segments.get(sequences) or self.segments(sequences):
            if context >= below_tokens:
                continue
            stop = end if end <= below_tokens else context + sequences * math.ceil((below_tokens - context) / sequences)
            now_s = ends[-1] if ends else start_s
            if add_up(ends, now_s, context, stop, sequences, fixed_s, per_token_s, until_s):
                return ends
            context = stop
            if context >= end:
                return ends
        return ends
