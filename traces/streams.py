"""Random numbers that belong to a request, not to an order of drawing.

Every number is a function of (seed, purpose, index, draw) alone: request i's prompt length is the same whether ten or
a million requests are drawn, in whatever order, and whichever policy serves them (common random numbers).

The generator is splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) used
as a counter: the output for state key + index * golden gamma, with a key of 64 bits hashed from (seed, purpose, draw).
"""

import hashlib
from dataclasses import dataclass

import numpy as np

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Stream:
    """Draws for one purpose: `index` (an array, e.g. of request numbers) in, one number for each out."""

    seed: int
    purpose: str

    def uniforms(self, index: np.ndarray, draw: int = 0) -> np.ndarray:
        """Uniform on the open interval (0, 1), never 0 or 1: multiples of 2^-52, plus 2^-53."""
        name = f"{self.seed}/{self.purpose}/{draw}".encode()
        key = np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))
        word = index.astype(np.uint64)
        word += np.uint64(1)
        word *= GOLDEN_GAMMA  # integers of 64 bits wrap around, which is meant
        word += key
        word = (word ^ (word >> np.uint64(30))) * MIX_1
        word = (word ^ (word >> np.uint64(27))) * MIX_2
        word ^= word >> np.uint64(31)
        return ((word >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def exponentials(self, index: np.ndarray) -> np.ndarray:
        """Exponential with mean 1, by inversion."""
        return -np.log(self.uniforms(index))

    def normals(self, index: np.ndarray, draw: int = 0) -> np.ndarray:
        """Standard normal (Box and Muller, 1958); uses the draws `draw` and `draw + 1`."""
        radius = np.sqrt(-2 * np.log(self.uniforms(index, draw)))
        return radius * np.cos(2 * np.pi * self.uniforms(index, draw + 1))

    def gammas(self, index: np.ndarray, shape: float) -> np.ndarray:
        """Gamma with this shape and mean `shape` (Marsaglia and Tsang, ACM TOMS 26(3), 2000).

        Rejection: attempt a uses the draws 3a + 1 to 3a + 3, and draw 0 is for shapes below 1, so that a request's
        number depends on its own draws alone.
        """
        if shape < 1:  # gamma(k) = gamma(k + 1) * U^(1/k)
            return Stream(self.seed, self.purpose + "/boosted").gammas(index, shape + 1) * (
                self.uniforms(index) ** (1 / shape)
            )
        scale = shape - 1 / 3
        result = np.empty(len(index))
        left = np.arange(len(index))  # places whose attempts were all refused so far
        attempt = 0
        while len(left):
            normal = self.normals(index[left], 3 * attempt + 1)
            cube = np.maximum(1 + normal / np.sqrt(9 * scale), 0) ** 3
            with np.errstate(divide="ignore"):  # log 0 = -inf refuses, as it should
                bound = normal**2 / 2 + scale * (1 - cube + np.log(cube))
            accepted = np.log(self.uniforms(index[left], 3 * attempt + 3)) < bound
            result[left[accepted]] = scale * cube[accepted]
            left = left[~accepted]
            attempt += 1
        return result
