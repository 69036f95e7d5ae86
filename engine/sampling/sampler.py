"""The next token of every row, on the device and without waiting for it.

A sampled token is the inverse CDF of a uniform number over the tokens in the order of their ids. Probabilities are kept as
integers, `weight = floor(2^40 exp((logit - largest) / temperature))`: sums of integers do not depend on the order in which a
device adds them, so what a row draws depends on its own logits and its own number alone, bit for bit, whatever rows lie
beside it; and a token of weight 0 is never drawn. (A token 2^40 times less likely than the likeliest has weight 0.)

A row with NaN or +inf, or with -inf alone, yields `FAILED`; whoever reads the tokens fails its request.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from engine.sampling.threshold import least_key_reaching

FAILED = -1  # in place of a token
SHORT_LIST = 256  # up to this k, the k likeliest tokens are found faster in order than by a radix select
IN_CACHE = 1 << 18  # numbers for each thread: 2 MB a tensor of 64 bits
UNIT = 2.0**40  # weight of the likeliest token: the weights of 2^22 tokens still sum to less than 2^63


class Limits(NamedTuple):
    """What the host knows of the limits of the rows that are drawn."""

    any_k: bool
    any_p: bool
    most_k: int  # the largest top_k; the vocabulary, where a row has none


def sample(logits: Tensor, temperatures: ArrayLike, top_ps: ArrayLike, top_ks: ArrayLike, uniforms: ArrayLike) -> Tensor:
    """int64 [rows] on the device of the logits, fp32 [rows, vocab]. The rest are [rows] on the host.

    temperature 0: greedy; top_p 1 and top_k 0: no limit; uniforms of [0, 1), see draws.py (rows of temperature 0 ignore
    theirs). The host decides from its own values what there is to compute, so the device is never asked.
    """
    heat = np.asarray(temperatures, dtype=np.float32)
    tokens, largest = greedy(logits)
    rows = np.flatnonzero(heat)
    if not rows.size:
        return tokens
    vocab = logits.shape[1]
    p, k = np.asarray(top_ps, dtype=np.float64)[rows], np.asarray(top_ks, dtype=np.int64)[rows]
    k = np.where(k > 0, k, vocab).clip(max=vocab)
    limits = Limits(bool((k < vocab).any()), bool((p < 1).any()), int(k.max()))
    numbers = np.stack([rows, heat[rows], np.asarray(uniforms, dtype=np.float64)[rows], p, k])
    place, temperature, uniform, top_p, top_k = to_device(numbers, logits.device)
    if rows.size == len(heat):
        return in_pieces(limits, logits, largest, temperature.float(), uniform, top_p, top_k.long())
    place = place.long()
    drawn = in_pieces(limits, logits[place], largest[place], temperature.float(), uniform, top_p, top_k.long())
    return tokens.index_copy_(0, place, drawn)


def in_pieces(limits: Limits, *rows: Tensor) -> Tensor:
    """`draw`, on a CPU some rows at a time: what is computed for them then stays in its caches."""
    count, vocab = rows[0].shape
    at_once = max(1, IN_CACHE * torch.get_num_threads() // vocab) if rows[0].device.type == "cpu" else count
    return torch.cat([draw(limits, *piece) for piece in zip(*(tensor.split(at_once) for tensor in rows), strict=True)])


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(the first of the likeliest tokens int64 [rows], its logit [rows]); no host sync, fixed shapes.

    Maxima of short stretches first, then the index within one: on a CPU five times faster than argmax over long rows.
    """
    stretches = logits.unflatten(1, (-1, gcd(logits.shape[1], 128)))
    largest, stretch = stretches.amax(2).max(1)  # both propagate NaN
    width = stretches.shape[2]
    inner = stretches.gather(1, stretch[:, None, None].expand(-1, 1, width)).squeeze(1)
    return or_failed(stretch * width + inner.argmax(1), largest), largest


def draw(
    limits: Limits, logits: Tensor, largest: Tensor, temperature: Tensor, uniform: Tensor, top_p: Tensor, top_k: Tensor
) -> Tensor:
    """int64 [rows] from logits fp32 [rows, vocab]; no host sync, fixed shapes.

    The rest are [rows] on the device: the row's `largest` logit, temperature fp32 > 0, uniform fp64 in [0, 1), top_p fp64
    in (0, 1], top_k int64 from 1 to vocab.
    """
    odds = (logits - largest[:, None]).div_(temperature[:, None]).exp_()  # exp(-inf) is 0, the likeliest has 1
    weights = kept((odds * UNIT).long(), odds, top_p, top_k, limits)
    cumulative = weights.cumsum(1)
    total = cumulative[:, -1:]
    target = (uniform[:, None] * total).long().clamp_(max=total - 1)
    # clamp: a row of NaN has no total; it must not index outside before it is marked
    token = torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp_(max=logits.shape[1] - 1)
    return or_failed(token, largest)


def kept(weights: Tensor, odds: Tensor, top_p: Tensor, top_k: Tensor, limits: Limits) -> Tensor:
    """The weights [rows, vocab], 0 where top-k and then top-p leave a token out.

    A token as likely as the last one kept is kept too, so the choice does not hang on the order of equals.
    """
    keys, measure = order(odds), weights  # of the tokens among which top-p has to look
    if limits.any_k:
        if limits.most_k <= SHORT_LIST:
            best, places = odds.topk(limits.most_k, dim=1)
            weights = torch.where(odds >= best.gather(1, top_k[:, None] - 1), weights, 0)
            keys, measure = order(best), weights.gather(1, places)
        else:
            least = least_key_reaching(keys, torch.ones_like(weights), top_k)
            weights = measure = torch.where(keys >= least[:, None], weights, 0)
    if limits.any_p:
        total = weights.sum(1)
        goal = (top_p * total).ceil().long().clamp(min=1)
        # equals of the kth token may be missing from the short list: where it does not reach the goal, all of them stay
        least = least_key_reaching(keys, measure, goal)
        weights = torch.where(order(odds) >= least[:, None], weights, 0)
    return weights


def order(odds: Tensor) -> Tensor:
    """int32 keys in the order of the odds: the bits of floats that are not negative."""
    return odds.view(torch.int32)


def top_candidates(
    logits: Tensor, count: int, suppressed: tuple[Sequence[int], Sequence[int]] = ((), ())
) -> tuple[Tensor, Tensor]:
    """For beam search: (log-probabilities fp32, tokens int64), [rows, count] each, the likeliest first.

    `suppressed` are (rows, tokens) as in `suppress`, taken out after the softmax: the others' log-probabilities stay. All
    tokens of a failed row are `FAILED`.
    """
    log_probs = logits.log_softmax(1)
    suppress(log_probs, *suppressed)
    best, tokens = log_probs.topk(min(count, logits.shape[1]), dim=1)
    return best, torch.where(logits.amax(1).isfinite()[:, None], tokens, FAILED)


def suppress(logits: Tensor, rows: Sequence[int], tokens: Sequence[int]) -> None:
    """Make token tokens[i] impossible in row rows[i], in place (min_tokens: no stop token yet)."""
    if rows:
        row, token = to_device(np.array([rows, tokens], dtype=np.int64), logits.device)
        logits[row, token] = float("-inf")


def or_failed(tokens: Tensor, largest: Tensor) -> Tensor:
    return torch.where(largest.isfinite(), tokens, FAILED)


def to_device(numbers: np.ndarray, device: torch.device) -> Tensor:
    """In one copy that the host does not wait for."""
    tensor = torch.from_numpy(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
