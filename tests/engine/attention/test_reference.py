"""The definition against hand calculation and PyTorch's own attention; then paged against plain."""

import math

import pytest
import torch
import torch.nn.functional as F

from engine.attention.fp8 import FP8, from_cache, to_cache
from engine.attention.reference import ReferenceAttention, attention
from tests.engine.attention.cases import CASES, make_case, run


def test_two_positions_by_hand():
    """q.k = 0 and ln 3: weights 1/4 and 3/4; v = 8 and 16: 8/4 + 16 * 3/4 = 14. A group of two heads reads one KV head."""
    k = torch.tensor([0.0, 1.0]).view(2, 1, 1)
    v = torch.tensor([8.0, 16.0]).view(2, 1, 1)
    q = torch.full((1, 2, 1), math.log(3))
    torch.testing.assert_close(attention(q, k, v, 1.0), torch.full((1, 2, 1), 14.0))


def test_a_row_sees_positions_up_to_its_own():
    """Equal scores average what is visible: rows at positions 1 and 2 of v = 0, 2, 10 give 1 and 4."""
    v = torch.tensor([0.0, 2.0, 10.0]).view(3, 1, 1)
    out = attention(torch.zeros(2, 1, 1), torch.ones(3, 1, 1), v, 1.0)
    torch.testing.assert_close(out.flatten(), torch.tensor([1.0, 4.0]))


def test_a_prompt_is_causal_attention_of_pytorch():
    torch.manual_seed(0)
    q, k, v = torch.randn(11, 6, 8), torch.randn(11, 2, 8), torch.randn(11, 2, 8)
    theirs = F.scaled_dot_product_attention(
        *(x.transpose(0, 1)[None] for x in (q, k, v)), is_causal=True, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(attention(q, k, v, 0.3), theirs[0].transpose(0, 1))


@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.float16, FP8], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_through_block_tables_it_is_the_same(name, cache_dtype):
    case = make_case(**CASES[name], dim=8, cache_dtype=cache_dtype)
    case.check(run(ReferenceAttention(), case))


def test_fp8_by_hand():
    """Scale 1/2: 3 lies as 6, 9.3 as 18.6 -> 18 (steps of 2 between 16 and 32), 300 as 600 -> the largest, 448."""
    stored = to_cache(torch.tensor([[3.0, 9.3, 300.0, -300.0]]), FP8, torch.tensor([0.5]))
    assert stored.float().tolist() == [[6.0, 18.0, 448.0, -448.0]]
    assert from_cache(stored, torch.tensor([0.5])).tolist() == [[3.0, 9.0, 224.0, -224.0]]
