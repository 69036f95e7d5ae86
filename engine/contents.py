"""What requests say, where a trace only counts tokens.

Blocks that a trace calls equal have equal tokens, everything else is a request's own: each token is a hash of (seed, whose
it is, where it stands), so that the same trace has the same content whatever is scheduled when.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.sampling.params import SamplingParams
from twin.keyed_draws import GOLDEN_GAMMA, MIX_1, MIX_2

FIRST_PLAIN_TOKEN = 256  # those before it are control tokens in many vocabularies


def tokens_of(seed: int, owner: str, start: int, count: int, vocab: int) -> list[int]:
    """`count` tokens of an owner from a position on; no control tokens where the vocabulary is large enough."""
    first = FIRST_PLAIN_TOKEN if vocab > 2 * FIRST_PLAIN_TOKEN else 0
    key = zlib.crc32(owner.encode()) << 32 | (seed & 0xFFFFFFFF)
    state = np.arange(start, start + count, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA) + np.uint64(key)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(MIX_1)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(MIX_2)
    state ^= state >> np.uint64(31)
    tokens: list[int] = (first + state % np.uint64(vocab - first)).astype(np.int64).tolist()
    return tokens


class TraceContents:
    """Content for a trace: blocks with the same key in `trace.prefix` have the same tokens."""

    def __init__(self, trace: Any, block_size: int, vocab: int, sampling: SamplingParams, seed: int = 0) -> None:
        """`trace`: a `twin.sim.arrivals.Workload`; `sampling` is every request's."""
        self.ids, self.prompt_tokens = trace.ids(), trace.prompt_tokens.tolist()
        self.block_size, self.vocab, self.seed, self._sampling = block_size, vocab, seed, sampling
        self.prefix = trace.prefix
        self.shareable = None if trace.prefix is None else trace.prefix.shareable_tokens().tolist()

    def prompt(self, row: int) -> list[int]:
        count, block_size = self.prompt_tokens[row], self.block_size
        tokens: list[int] = []
        shared = 0 if self.shareable is None else min(self.shareable[row], count) // block_size
        if shared:
            for key in self.prefix.block_keys(row, block_size, shared):
                tokens += tokens_of(self.seed, f"block {key}", 0, block_size, self.vocab)
        return tokens + self.answer(row, len(tokens), count - len(tokens))

    def answer(self, row: int, position: int, count: int) -> list[int]:
        return tokens_of(self.seed, f"request {self.ids[row]}", position, count, self.vocab)

    def sampling(self, row: int) -> SamplingParams:
        return self._sampling


class GivenContents:
    """Prompts as lists of tokens, each with its own sampling parameters."""

    def __init__(
        self, prompts: Sequence[Sequence[int]], sampling: Sequence[SamplingParams], vocab: int, seed: int = 0
    ) -> None:
        self.prompts, self._sampling, self.vocab, self.seed = prompts, sampling, vocab, seed

    def prompt(self, row: int) -> Sequence[int]:
        return self.prompts[row]

    def answer(self, row: int, position: int, count: int) -> list[int]:
        return tokens_of(self.seed, f"answer to {row}", position, count, self.vocab)

    def sampling(self, row: int) -> SamplingParams:
        return self._sampling[row]


def scenario_contents(rows: Sequence[Any], vocab: int, seed: int = 0) -> GivenContents:
    """Of a scenario's requests, in order of arrival: the ids that the file gives, folded into the vocabulary."""
    prompts = [
        [token % vocab for token in row.tokens]
        if row.tokens is not None
        else tokens_of(seed, f"request {row.id}", 0, row.prompt_tokens, vocab)
        for row in rows
    ]
    sampling = [SamplingParams(ignore_eos=True, max_tokens=row.max_tokens or row.output_tokens, n=row.n) for row in rows]
    return GivenContents(prompts, sampling, vocab, seed)
