"""What an attention back end is given, and what it has to do.

A step computes some tokens of some sequences. The tokens of all sequences lie one after the other (*varlen*): sequence i has
the rows query_start[i] .. query_start[i + 1] - 1. Its keys and values lie in blocks of the cache:

    position p of sequence i   ->   block block_tables[i, p // block_size], slot p % block_size

Sequences with one row come first (`num_decodes` of them): decode kernels take the front, prefill kernels the rest. Row j of
a sequence of n rows stands at position context_lens[i] - n + j and sees all positions up to its own.

Order of a layer: `write` puts K and V of all rows into their slots, then `attend` reads. Prefix sharing within one step
depends on it: a sequence may read what another one has written in this very step. Nothing outside a sequence's own
table, or past its context, may be read: it may be NaN. Entries of a table past its own blocks are -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class AttentionBatch:
    """Where the rows of a step stand. Tensors lie on the device of the model; the integers on the host."""

    query_start: Tensor  # int32 [sequences + 1], ascending from 0
    context_lens: Tensor  # int32 [sequences], tokens of context after this step; 0 for a row of padding
    block_tables: Tensor  # int32 [sequences, most blocks], -1 where a sequence has no block
    slots: Tensor  # int64 [tokens], block * block_size + offset of each row's K and V; -1: padding, not to be written
    positions: Tensor  # int64 [tokens]
    num_decodes: int  # so many sequences at the front have one row each
    query_lens: list[int]  # rows of each sequence
    contexts: list[int]  # context_lens, on the host (upper bounds while a CUDA graph is captured)

    @property
    def num_sequences(self) -> int:
        return len(self.query_lens)


class AttentionBackend(Protocol):
    """One way to compute paged attention. `name` is what `attention=` says."""

    name: str

    def write(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, k_scale: Tensor, v_scale: Tensor
    ) -> None:
        """Put the rows [tokens, kv_heads, dim] into their slots of the caches [blocks, block_size, kv_heads, dim].

        An fp8 cache holds value / scale, with scales fp32 [kv_heads] of the layer, clamped to +-448.
        """
        ...

    def attend(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch, scale: float, k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:  # fmt: skip
        """softmax(q k^T * scale) v for queries [tokens, heads, dim], causal; the result likewise, in q's dtype.

        `heads` is a multiple of kv_heads; query head h reads KV head h // (heads // kv_heads). Accumulation is in fp32.
        Rows of padding (context 0) come back as zeros.
        """
        ...
