"""Random numbers that belong to a request: uniform draws keyed by (seed, purpose, request id), and by nothing else.

Whatever is drawn for a request is the same in whatever order requests come, and whoever serves them (common random
numbers). An id is read in words of 8 bytes of its UTF-8; each is mixed into a state of 64 bits with the finalizer of
splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), which starts as a hash of
seed and purpose. `uniform` and `uniforms` are the same function, of one id and of many.
"""

import hashlib
from collections.abc import Sequence

WORD = 8  # bytes
MASK = (1 << 64) - 1
GOLDEN_GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def stream(seed: int, purpose: str) -> int:
    """The state with which the draws of a seed and a purpose start."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=WORD).digest(), "little")


def uniform(stream: int, request_id: str) -> float:
    """Of the open interval (0, 1), never 0 or 1: a multiple of 2^-52, plus 2^-53."""
    text, state = request_id.encode(), stream
    for place in range(0, max(1, len(text)), WORD):
        state = ((state ^ int.from_bytes(text[place : place + WORD], "little")) + GOLDEN_GAMMA) & MASK
        state = ((state ^ (state >> 30)) * MIX_1) & MASK
        state = ((state ^ (state >> 27)) * MIX_2) & MASK
        state ^= state >> 31
    return ((state >> 12) + 0.5) * 2.0**-52


def uniforms(stream: int, request_ids: Sequence[str]) -> list[float]:
    """`uniform` of each, at a tenth of the time."""
    import numpy as np

    texts = [request_id.encode() for request_id in request_ids]
    if not texts:
        return []
    lengths = np.array([len(text) for text in texts])
    width = -(-max(1, int(lengths.max())) // WORD)
    words = np.array(texts, dtype=f"S{WORD * width}").view("<u8").reshape(len(texts), width)
    state = np.full(len(texts), stream, dtype=np.uint64)
    for place in range(width):
        mixed = (state ^ words[:, place]) + np.uint64(GOLDEN_GAMMA)  # integers of 64 bits wrap around, which is meant
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(MIX_1)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(MIX_2)
        mixed ^= mixed >> np.uint64(31)
        state = mixed if place == 0 else np.where(lengths > WORD * place, mixed, state)
    drawn: list[float] = (((state >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52).tolist()
    return drawn
