"""Beam search over the continuations of one prompt: pure logic, no model, no tensors.

Each step the model gives every living beam its likeliest next tokens. Among the candidates of all beams, best first, those
that end count as hypotheses if they are among the first `width`, and the best `width` that do not end live on:

    score of a beam        sum of its tokens' log-probabilities
    score of a hypothesis  the same / length ** length_penalty, the length in generated tokens, its stop token included

The `width` best hypotheses are kept. Semantics and precision (sums in fp32) are those of transformers' `generate(num_beams,
do_sample=False)`, to which the tests hold it. Two differences, at the edges: equal scores order by (parent, token), and when
the vocabulary is too small for `width` different beams there are fewer, never copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from engine.sampling.params import EarlyStopping


class Candidate(NamedTuple):
    """One way to go on. `parent` is an index into the living beams, carried along: beams may offer different numbers."""

    parent: int
    token: int
    log_prob: float  # of the token, given its beam


class Beam(NamedTuple):
    tokens: tuple[int, ...]  # generated
    score: np.float32


class Hypothesis(NamedTuple):
    tokens: tuple[int, ...]  # generated, the stop token included
    score: float


class BeamStep(NamedTuple):
    """What a step came to."""

    beams: list[tuple[int, int]]  # (parent, token) of each beam that lives on, best first; empty when done
    finished: list[Hypothesis]  # that ended now, whether they are kept or not
    done: bool


class BeamGroup:
    """The beams of one request. `beams` live, at first the prompt alone; `hypotheses` have ended; both best first."""

    def __init__(
        self, width: int, length_penalty: float, early_stopping: EarlyStopping, stop_ids: Iterable[int], max_tokens: int
    ) -> None:
        assert width >= 1 and max_tokens >= 1
        self.width, self.length_penalty, self.early_stopping = width, length_penalty, early_stopping
        self.stop_ids, self.max_tokens = frozenset(stop_ids), max_tokens
        self.beams = [Beam((), np.float32(0))]
        self.hypotheses: list[Hypothesis] = []
        self.done = False

    @property
    def num_candidates(self) -> int:
        """So many of each beam are enough: `width` of them go on even if each beam's likeliest tokens are stop tokens."""
        return self.width * max(2, 1 + len(self.stop_ids))

    def step(self, candidates: Iterable[Candidate]) -> BeamStep:
        """Take the candidates of all living beams, in any order: of each its `num_candidates` likeliest, or all it has."""
        assert not self.done
        best = self.ranked(candidates)
        length = len(self.beams[0].tokens) + 1
        ends = [length == self.max_tokens or candidate.token in self.stop_ids for candidate, _ in best]
        finished = [
            Hypothesis((*self.beams[candidate.parent].tokens, candidate.token), self.hypothesis_score(score, length))
            for (candidate, score), end in zip(best[: self.width], ends, strict=False)
            if end
        ]
        # sorted is stable: an older hypothesis comes before a newer one of the same score
        self.hypotheses = sorted(self.hypotheses + finished, key=lambda hypothesis: -hypothesis.score)[: self.width]
        going_on = [entry for entry, end in zip(best, ends, strict=True) if not end][: self.width]
        self.done = not going_on or self.decided(going_on[0][1], length)
        if self.done:
            going_on = []
        self.beams = [Beam((*self.beams[candidate.parent].tokens, candidate.token), score) for candidate, score in going_on]
        return BeamStep([(candidate.parent, candidate.token) for candidate, _ in going_on], finished, self.done)

    def ranked(self, candidates: Iterable[Candidate]) -> list[tuple[Candidate, np.float32]]:
        """(candidate, score of the beam it would make), best first, impossible ones left out."""
        scored = [
            (candidate, self.beams[candidate.parent].score + np.float32(candidate.log_prob))
            for candidate in candidates
            if candidate.log_prob > -np.inf
        ]
        scored.sort(key=lambda entry: (-entry[1], entry[0].parent, entry[0].token))
        return scored[: self.num_candidates]

    def decided(self, best_score: np.float32, length: int) -> bool:
        """Whether the kept hypotheses stand, given the score of the best living beam, now of `length` tokens."""
        if len(self.hypotheses) < self.width:
            return False
        if self.early_stopping is True:
            return True
        hoped_for = self.max_tokens if self.early_stopping == "never" and self.length_penalty > 0 else length
        return self.hypothesis_score(best_score, hoped_for) <= self.hypotheses[-1].score

    def hypothesis_score(self, score: np.float32, length: int) -> float:
        return float(score / np.float32(length**self.length_penalty))
