"""Which tokens end a request. That max_tokens are reached is for the scheduler to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class Stops:
    """The stop tokens of one request, in ascending order, and how many tokens come before one of them may."""

    token_ids: tuple[int, ...]
    min_tokens: int

    @classmethod
    def of(cls, params: SamplingParams, eos_ids: Iterable[int]) -> Stops:
        """`eos_ids`: the model's end-of-sequence tokens."""
        own = () if params.ignore_eos else eos_ids
        return cls(tuple(sorted({*own, *params.stop_token_ids})), params.min_tokens)

    def end(self, token: int) -> bool:
        return token in self.token_ids

    def suppressed(self, generated: int) -> tuple[int, ...]:
        """Tokens that may not follow on `generated` generated ones: see `sampler.suppress`."""
        return self.token_ids if generated < self.min_tokens else ()
