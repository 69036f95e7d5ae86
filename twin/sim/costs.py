"""What `policy.preemption_mode=auto` weighs: the seconds of a swap out and back in, and those of computing again.

    swap        2 x blocks x (bytes a block / bandwidth + per copy)
    recompute   what a step with this prefill takes beyond one without it

vLLM V0 chose by a rule (recompute unless sequences are forked); Kwon et al. (SOSP 2023, section 7.3) measured both: small
blocks favour recomputation, large ones swapping.
"""

from collections.abc import Callable

from twin.core.batch import Features
from twin.core.limits import blocks_for
from twin.core.request import Request
from twin.latency.model import LatencyModel
from twin.sim.swap_link import SwapCost


def cheaper_mode(latency: LatencyModel, swap: SwapCost) -> Callable[[Request], str]:
    """Says for a victim which mode costs less; on a tie it swaps, since then nothing is computed twice."""

    def choose(request: Request) -> str:
        tokens = request.settled_computed
        if not tokens or request.pool is None:
            return "recompute"
        swap_s = 2 * swap.seconds(blocks_for(tokens, request.pool.block_size))
        return "swap" if swap_s <= recompute_s(latency, tokens) else "recompute"

    return choose


def recompute_s(latency: LatencyModel, tokens: int) -> float:
    """Seconds that the prefill of so many tokens adds to a step that decodes for one other sequence anyway."""
    with_it = Features(2, tokens, 1, 2 * tokens, tokens, tokens * tokens / 2, 1)
    return latency.step_s(with_it) - latency.decode_step_s(1, tokens)
