"""The check of the choice of tokens finds choices that hang on what lies beside."""

from itertools import count

import numpy as np
import pytest
import torch

from engine.checks import sampling
from engine.checks.case import Wrong
from engine.checks.sampling import check_sampling
from engine.sampling.sampler import FAILED, sample
from tests.engine.attention.cases import DEVICES

CPU = torch.device("cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_the_sampler_passes(device: str):
    check_sampling(torch.device(device))


def hangs_on_the_time():
    calls = count()
    return lambda logits, heat, p, k, u: sample(logits, heat, p, k, (u + 0.1 * next(calls)) % 1)


def hangs_on_the_number_of_rows(logits, heat, p, k, u):
    return sample(logits, heat, p, k, u if len(u) > 1 else (u + 0.5) % 1)


def hangs_on_the_place(logits, heat, p, k, u):
    return sample(logits, heat, p, k, u if len(u) == 1 else np.sort(u))


def ignores_top_k(logits, heat, p, k, u):
    return sample(logits, heat, p, np.zeros_like(k), u)


def lets_nan_through(logits, heat, p, k, u):
    return sample(logits.nan_to_num(), heat, p, k, u)


def fails_all(logits, heat, p, k, u):
    tokens = sample(logits, heat, p, k, u)
    return torch.full_like(tokens, FAILED) if logits.isnan().any() else tokens


@pytest.mark.parametrize(
    "wrong, told",
    [
        (hangs_on_the_time(), "drawn a second time"),
        (hangs_on_the_number_of_rows, "alone"),
        (hangs_on_the_place, "alone"),
        (ignores_top_k, "are allowed"),
        (lets_nan_through, "a row with NaN must fail, and no other"),
        (fails_all, "a row with NaN must fail, and no other"),
    ],
)
def test_a_wrong_choice_is_found(monkeypatch: pytest.MonkeyPatch, wrong, told: str):
    monkeypatch.setattr(sampling, "sample", wrong)
    with pytest.raises(Wrong, match=told):
        check_sampling(CPU)
