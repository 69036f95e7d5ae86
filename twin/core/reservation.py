"""What the contiguous allocator sets aside: the policy's wish, or the longest that a request may become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twin.core.errors import PolicyError
from twin.core.limits import NO_LIMIT, blocks_for
from twin.core.request import Request

if TYPE_CHECKING:
    from twin.core.state import State


def blocks_reserved(state: State, request: Request) -> int:
    """Blocks that an admission of the request takes at once."""
    limits, reserve = state.limits, state.policy.reserve
    if reserve is not None:
        answer: Any = reserve(request.view, state.view)
        if type(answer) is not int or answer < request.prompt_tokens:
            raise PolicyError(f"reserve() set {answer!r} tokens aside for request {request.id}: less than its prompt")
        tokens = answer + state.rules.async_scheduling  # an end that is not foreseen: one more is computed, and dropped
    elif limits.max_model_len < NO_LIMIT:
        tokens = limits.max_model_len
    else:
        tokens = request.prompt_tokens + request.max_tokens - 1
    return blocks_for(min(tokens, limits.max_model_len), limits.block_size)


def why_never_reserved(state: State, request: Request) -> str | None:
    """The reason for which a request could never have its extent, or None."""
    if request.samples > 1:
        return f"{request.samples} samples cannot share their prompt in cache.allocator=contiguous"
    blocks = blocks_reserved(state, request)
    if blocks <= state.limits.num_blocks:
        return None
    return f"a reservation of {blocks} contiguous blocks exceeds num_gpu_blocks={state.limits.num_blocks}"
