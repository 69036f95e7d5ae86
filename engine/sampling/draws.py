"""The random number behind each sampled token: keyed by (seed, request, sample, position), and by nothing else.

So a token is drawn with the same number in whatever batch it is computed, and again after its request was preempted and
computed anew. A sequence has a `stream`, a hash made once; a draw mixes the position into it with the finalizer of
splitmix64, as `twin.keyed_draws` mixes the words of an id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twin import keyed_draws

GOLDEN_GAMMA, MIX_1, MIX_2 = (np.uint64(x) for x in (keyed_draws.GOLDEN_GAMMA, keyed_draws.MIX_1, keyed_draws.MIX_2))


def stream(seed: int, request_id: str, sample: int = 0) -> int:
    """Of one sequence: sample `sample` of the n of a request. A 64-bit state for `uniforms`."""
    return keyed_draws.stream(seed, f"sampling/{request_id}/{sample}")


def uniforms(streams: Sequence[int], positions: Sequence[int]) -> NDArray[np.float64]:
    """One of (0, 1) a row: a multiple of 2^-52, plus 2^-53.

    `positions[i]` is where the token to be drawn will stand in sequence i: its prompt and generated tokens so far.
    """
    state = np.asarray(streams, dtype=np.uint64) ^ np.asarray(positions, dtype=np.uint64)
    state = state + GOLDEN_GAMMA  # arrays of 64-bit integers wrap around, which is meant
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    state ^= state >> np.uint64(31)
    return ((state >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
