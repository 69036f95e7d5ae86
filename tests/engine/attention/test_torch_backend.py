"""The torch back end against the definition, on the cases of all back ends and on what is its own."""

import pytest
import torch

from engine.attention.fp8 import FP8
from engine.attention.torch_backend import TorchAttention
from tests.engine.attention.cases import CASES, make_case, run

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("cache_dtype", [None, FP8], ids=["same cache", "fp8 cache"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_equals_the_definition(name, dtype, cache_dtype):
    case = make_case(**CASES[name], dtype=dtype, cache_dtype=cache_dtype)
    case.check(run(TorchAttention(), case))
