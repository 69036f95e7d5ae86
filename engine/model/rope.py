"""Tables of cosine and sine for rotary position embeddings.

Dimension i of a head turns with dimension i + head_dim / 2, at position p by the angle p * w_i, w_i = theta^(-2i / head_dim)
[Su et al. 2021, arXiv 2104.09864]. The kinds of scaling change w_i:

    linear    w / factor
    dynamic   theta grows with the longest context L: theta * (factor * L / M - factor + 1)^(d / (d - 2)), M = max_position
    llama3    long waves divided by the factor, short ones left, a line between the two in the number of turns
    yarn      the same with the line in the dimension, and an attention factor on cosine and sine [arXiv 2309.00071]
    longrope  w divided by a factor for each dimension, one list for short and one for long contexts [arXiv 2402.13753]

`dynamic` and `longrope` depend on how long contexts get. Keys in a paged cache are shared and may not turn again, so the
tables are made once, for the longest context that the engine admits: a sequence of just that length is computed as its
authors do in one pass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.rope_config import RopeConfig


def rope_tables(config: ModelConfig, max_len: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Cosine and sine, each fp32 [max_len, head_dim / 2], times the attention factor."""
    frequencies = inverse_frequencies(config.rope, config.head_dim, config.max_position, max_len)
    angles = torch.outer(torch.arange(max_len, dtype=torch.float32), frequencies)
    factor = attention_factor(config.rope)
    return (angles.cos() * factor).to(device), (angles.sin() * factor).to(device)


def inverse_frequencies(rope: RopeConfig, head_dim: int, max_position: int, max_len: int) -> Tensor:
    """Angle a position, fp32 [head_dim / 2], where contexts reach up to `max_len` tokens."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    theta = rope.theta
    if rope.kind == "dynamic":
        longest = max(max_len, max_position)
        theta *= (rope.factor * longest / max_position - (rope.factor - 1)) ** (head_dim / (head_dim - 2))
    plain = 1.0 / theta**exponents
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        return _llama3(plain, rope)
    if rope.kind == "yarn":
        return _yarn(plain, head_dim, rope)
    if rope.kind == "longrope":
        divisors = rope.long_factor if max_len > rope.original_max_position else rope.short_factor
        return plain / torch.tensor(divisors)
    return plain


def attention_factor(rope: RopeConfig) -> float:
    """What cosine and sine are multiplied with; the square of it stands on the scores of attention."""
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.kind == "yarn":
        if rope.mscale and rope.mscale_all_dim:
            return _magnitude(rope.factor, rope.mscale) / _magnitude(rope.factor, rope.mscale_all_dim)
        return _magnitude(rope.factor, 1.0)
    if rope.kind == "longrope" and rope.factor > 1:
        return math.sqrt(1 + math.log(rope.factor) / math.log(rope.original_max_position))
    return 1.0


def _magnitude(factor: float, mscale: float) -> float:
    """The paper's sqrt(1 / t) = 0.1 ln(factor) + 1."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _llama3(plain: Tensor, rope: RopeConfig) -> Tensor:
    """Waves with fewer than low_freq_factor turns in the original context are stretched, above high_freq_factor kept."""
    turns = rope.original_max_position * plain / (2 * math.pi)
    kept = ((turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)).clamp(0, 1)
    return (1 - kept) * plain / rope.factor + kept * plain


def _yarn(plain: Tensor, head_dim: int, rope: RopeConfig) -> Tensor:
    """Dimensions with more than beta_fast turns in the original context are kept, below beta_slow stretched."""
    low, high = (_dimension_of(turns, head_dim, rope) for turns in (rope.beta_fast, rope.beta_slow))
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    stretched = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width).clamp(0, 1)
    return stretched * plain / rope.factor + (1 - stretched) * plain


def _dimension_of(turns: float, head_dim: int, rope: RopeConfig) -> float:
    """The dimension pair i that turns so many times in the original context: M theta^(-2i/d) = 2 pi turns, for i."""
    return head_dim * math.log(rope.original_max_position / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
