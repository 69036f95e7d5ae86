"""The check of transfers passes, and tells which blocks are wrong."""

import pytest
import torch

from engine.checks.case import Wrong
from engine.checks.transfers import DTYPES, check_transfers
from engine.kv_cache import KVCache
from tests.engine.attention.cases import DEVICES

CPU = torch.device("cpu")
APPLY = KVCache.apply


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_the_cache_passes(device: str, dtype: torch.dtype):
    check_transfers(torch.device(device), dtype)


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda moves: [move for move in moves if move[0] != "in"], "blocks [2, 6, 11, 12, 13, 20, 21, 22] on the device"),
        (lambda moves: moves[:-1], "blocks [13] on the device"),
        (lambda moves: [*moves[:-3], moves[-1], *moves[-3:-1]], "blocks [13] on the device"),  # a copy before its source
        (lambda moves: moves[1:], "blocks [6, 13, 20] on the device"),  # what went out of 3 came back to 20, then 6 and 13
        (lambda moves: [*moves, ("out", 0, 11)], "blocks [11] on the host"),
        (lambda moves: [*moves, ("copy", 0, 1)], "blocks [1] on the device"),
    ],
)
def test_a_wrong_move_is_found(monkeypatch: pytest.MonkeyPatch, change, told: str):
    monkeypatch.setattr(KVCache, "apply", lambda cache, moves: APPLY(cache, change(list(moves))))
    with pytest.raises(Wrong) as wrong:
        check_transfers(CPU, torch.float32)
    assert told in str(wrong.value)
