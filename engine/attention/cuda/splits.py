"""Into how many spans the contexts of a batch are cut ("split KV").

A span is the work of one block of threads, which reads the cache of one KV head. Two reasons to cut:

    fill      few sequences and KV heads leave multiprocessors idle: make BLOCKS_TO_FILL blocks for each of them, as long as
              a span keeps SHORTEST_SPAN tokens (below, launching and merging cost more than they win)
    balance   blocks that need several turns of the device leave it half empty in the last turn: make up to
              BLOCKS_TO_BALANCE, as long as a span keeps LONG_SPAN tokens (the partial results, dim + 2 numbers a query head
              and span written and read, stay a few hundredths of the cache that is read)

The choice depends on the host's integers alone, so a CUDA graph replays the one made when it was captured, for the longest
context that it allows. A shorter context is then cut into as many spans, of at least 64 tokens (SPAN_UNIT of decode.cuh);
those left over end at once.
"""

from __future__ import annotations

BLOCKS_TO_FILL, SHORTEST_SPAN = 2, 128
BLOCKS_TO_BALANCE, LONG_SPAN = 16, 512


def choose_splits(sequences: int, kv_heads: int, longest: int, multiprocessors: int) -> int:
    """Spans of the longest context."""
    blocks = sequences * kv_heads
    to_fill = -(-BLOCKS_TO_FILL * multiprocessors // blocks)
    to_balance = BLOCKS_TO_BALANCE * multiprocessors // blocks
    return max(1, min(to_fill, longest // SHORTEST_SPAN), min(to_balance, longest // LONG_SPAN))


def most_spans(multiprocessors: int) -> int:
    """Bound of sequences * kv_heads * splits wherever splits is more than one.

    Filled: splits > 1 means blocks < BLOCKS_TO_FILL * multiprocessors, and rounding up adds less than another `blocks`.
    """
    return max(2 * BLOCKS_TO_FILL, BLOCKS_TO_BALANCE) * multiprocessors
