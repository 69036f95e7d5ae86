"""What a step consists of."""

from typing import NamedTuple


class Features(NamedTuple):
    """All that a latency model may know of a step (counts in tokens unless said otherwise).

    A part of the batch is *prefill* if fewer tokens than its prompt were computed before the step, or if it has more
    than one token; otherwise it is *decode*, one token.
    """

    sequences: int
    prefill_tokens: int
    decode_tokens: int
    context_tokens: int  # sum over all sequences of the context length after the step
    prefill_context_tokens: int = 0  # the same over the prefill parts alone
    prefill_attention: float = 0.0  # sum over the prefill parts of n * (computed before + n / 2): query-key pairs
    prefill_sequences: int = 0
