"""The definition against hand calculation and PyTorch's own attention; then paged against plain."""

import math

import pytest
import torch
import torch.nn.functional as F

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


@pytest.mark.parametrize("name", CASES)
def test_through_block_tables_it_is_the_same(name):
    case = make_case(**CASES[name], dim=8)
    case.check(run(ReferenceAttention(), case))
