"""The choice of tokens: the same for the same logits and number, whatever lies beside; and within what was asked for."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.checks.case import Wrong
from engine.checks.outcome import Measured
from engine.sampling.draws import stream, uniforms
from engine.sampling.sampler import FAILED, sample

ROWS, VOCAB = 24, 5000


def check_sampling(device: torch.device) -> Measured:
    """Raises `Wrong`."""
    random = torch.Generator().manual_seed(3)
    logits = (3 * torch.randn(ROWS, VOCAB, generator=random)).to(device)
    heat = np.array([0.0, 0.7, 1.0] * (ROWS // 3))
    top_p, top_k = np.array([1.0, 0.9, 1.0, 0.5] * (ROWS // 4)), np.array([0, 0, 20, 1] * (ROWS // 4))
    numbers = uniforms([stream(11, f"request {row}") for row in range(ROWS)], list(range(ROWS)))
    together = sample(logits, heat, top_p, top_k, numbers).cpu()
    _same(together, sample(logits, heat, top_p, top_k, numbers).cpu(), "drawn a second time")
    alone = [
        sample(logits[row : row + 1], *(each[row : row + 1] for each in (heat, top_p, top_k, numbers)))
        for row in range(ROWS)
    ]
    _same(together, torch.cat(alone).cpu(), "alone")
    back = slice(None, None, -1)
    reversed_rows = sample(logits.flip(0), heat[back], top_p[back], top_k[back], numbers[back]).cpu()
    _same(together, reversed_rows.flip(0), "in another order")
    _within(logits.cpu(), together, heat, top_k)
    spoilt = logits.clone()
    spoilt[5, 17] = float("nan")
    failed = sample(spoilt, heat, top_p, top_k, numbers).cpu()
    if failed[5] != FAILED or not torch.equal(failed[6:], together[6:]):
        raise Wrong("a row with NaN must fail, and no other")
    return Measured()


def _same(tokens: Tensor, others: Tensor, how: str) -> None:
    if not torch.equal(tokens, others):
        row = int((tokens != others).nonzero()[0])
        raise Wrong(f"row {row} draws token {int(tokens[row])}, but {int(others[row])} {how}")


def _within(logits: Tensor, tokens: Tensor, heat: np.ndarray, top_k: np.ndarray) -> None:
    """Greedy rows and those of top_k=1 take the likeliest token, the others one of the k likeliest."""
    rank = (logits > logits.gather(1, tokens[:, None])).sum(1).numpy()
    allowed = np.where((heat == 0) | (top_k == 1), 1, np.where(top_k > 0, top_k, VOCAB))
    if (rank >= allowed).any():
        row = int((rank >= allowed).nonzero()[0][0])
        raise Wrong(f"row {row} draws the token of rank {rank[row] + 1}; {allowed[row]} are allowed")
