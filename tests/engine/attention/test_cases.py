"""The cases find the mistakes that they are made for."""

import pytest
import torch
import torch.nn.functional as F

from engine.attention.reference import ReferenceAttention
from tests.engine.attention.cases import CASES, make_case, run


class WritesPadding(ReferenceAttention):
    """Slot -1 as PyTorch understands it (eng-01)."""

    def write(self, k, v, k_cache, v_cache, batch, k_scale, v_scale):
        k_cache.flatten(0, 1)[batch.slots] = k
        v_cache.flatten(0, 1)[batch.slots] = v


class MasksScoresAlone(ReferenceAttention):
    """Reads whole blocks, and hides what lies behind a context by a score of -inf: 0 * NaN is NaN."""

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        out = []
        for i, context in enumerate(batch.contexts):
            table = batch.block_tables[i]
            k, v = (cache[table[table >= 0]].flatten(0, 1) for cache in (k_cache, v_cache))
            visible = torch.arange(len(k)) < context
            scores = torch.einsum("hd,thd->ht", q[i], k.repeat_interleave(2, 1)) * scale
            weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
            out.append(torch.einsum("ht,thd->hd", weights, v.repeat_interleave(2, 1)))
        return torch.stack(out)


class IsNotCausal(ReferenceAttention):
    """Every row sees the whole context."""

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        k, v = (cache[batch.block_tables[0, :-1]].flatten(0, 1)[: batch.contexts[0]] for cache in (k_cache, v_cache))
        k, v = (x.transpose(0, 1)[None] for x in (k, v))
        return F.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v, scale=scale, enable_gqa=True)[0].transpose(0, 1)


class IgnoresScales(ReferenceAttention):
    """Takes what lies in an fp8 cache for the values themselves."""

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        ones = torch.ones_like(k_scale)
        return super().attend(q, k_cache, v_cache, batch, scale, ones, ones)


@pytest.mark.parametrize(
    ("wrong", "name", "cache_dtype", "told"),
    [
        (WritesPadding, "decode padded to 8 (eng-01, eng-02)", None, "not of this step"),
        (MasksScoresAlone, "decode at block edges (eng-04)", None, "not close"),
        (IsNotCausal, "chunk in the middle", None, "not close"),
        (IgnoresScales, "decode one", torch.float8_e4m3fn, "not close"),
    ],
)
def test_a_wrong_back_end_is_caught(wrong, name, cache_dtype, told):
    case = make_case(**CASES[name], cache_dtype=cache_dtype)
    with pytest.raises(AssertionError, match=told):
        case.check(run(wrong(), case))


def test_a_sequence_that_reads_what_another_writes_cannot_be_right_before_the_write():
    case = make_case(**CASES["a decode reads what a prefill writes"])
    early = ReferenceAttention().attend(
        case.q, case.k_cache, case.v_cache, case.batch, case.scale, case.k_scale, case.v_scale
    )
    assert early[0].isnan().all()
