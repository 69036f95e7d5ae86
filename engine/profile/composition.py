"""What a step consists of, in numbers: a point of the grid."""

from __future__ import annotations

from dataclasses import dataclass

from twin.core.batch import Features
from twin.core.limits import Limits, blocks_for


@dataclass(frozen=True, slots=True)
class Composition:
    """`decodes` sequences of one token each, `prompts` parts of prompts, and blocks that move before the step computes.

    All decodes have the same context, all parts of prompts the same size. A part completes its prompt.
    """

    kind: str  # decode, prefill, mixed, swap
    decodes: int = 0
    decode_context: int = 0  # tokens of context of each decode, that of the step included
    prompts: int = 0
    chunk: int = 0  # tokens of each prompt that the step computes
    chunk_before: int = 0  # ... and those that were computed before
    blocks_out: int = 0  # to the host
    blocks_in: int = 0  # back from it
    scattered: bool = False  # the blocks that move have random numbers, else consecutive ones

    @property
    def tokens(self) -> int:
        return self.decodes + self.prompts * self.chunk

    @property
    def features(self) -> Features:
        """What a latency model is told of such a step."""
        after = self.chunk_before + self.chunk
        return Features(
            sequences=self.decodes + self.prompts,
            prefill_tokens=self.prompts * self.chunk,
            decode_tokens=self.decodes,
            context_tokens=self.decodes * self.decode_context + self.prompts * after,
            prefill_context_tokens=self.prompts * after,
            prefill_attention=self.prompts * self.chunk * (self.chunk_before + self.chunk / 2),
            prefill_sequences=self.prompts,
        )

    def blocks(self, block_size: int) -> int:
        """Of the device's pool: those of the tables, and those that move."""
        tables = self.decodes * blocks_for(self.decode_context, block_size)
        tables += self.prompts * blocks_for(self.chunk_before + self.chunk, block_size)
        return tables + self.blocks_out + self.blocks_in

    def fits(self, limits: Limits) -> bool:
        """Whether a scheduler within these limits could ever launch it."""
        return (
            self.tokens <= limits.max_num_batched_tokens
            and self.decodes + self.prompts <= limits.max_num_seqs
            and max(self.decode_context, self.chunk_before + self.chunk) <= limits.max_model_len
            and self.blocks(limits.block_size) <= limits.num_blocks
            and self.blocks_out + self.blocks_in <= limits.num_host_blocks
        )
