"""The CUDA kernels against the definition of attention: emulated on the host, and on a GPU where there is one."""

import pytest
import torch

from engine.attention.cuda.library import DecodeArguments, partial_size
from engine.attention.fp8 import FP8, to_cache
from engine.errors import StepFailure
from tests.engine.attention.cases import CASES, Case, make_case, run
from tests.engine.attention.cuda.conftest import Platform

FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16

# (head dim, dtype of the activations, dtype of the cache): every head dim, every dtype of the cache, kernels on CUDA cores
# (fp32 on either side, groups of 1) and on tensor cores (the rest).
SHAPES = [
    (64, FP32, FP32), (64, BF16, BF16), (64, FP32, BF16), (64, FP16, BF16), (96, FP16, FP16), (96, FP32, FP16),
    (128, BF16, BF16), (128, BF16, FP8), (128, FP32, FP8), (256, BF16, BF16), (256, FP32, BF16),
]  # fmt: skip


def name_of(value):
    return str(value).removeprefix("torch.").replace("float8_e4m3fn", "fp8")


def decode(platform: Platform, case: Case, splits: int) -> torch.Tensor:
    """The decode kernel alone, with partial results that begin as NaN."""
    case = case.to(platform.device)
    (sequences, heads, dim), batch = case.q.shape, case.batch
    out = torch.full_like(case.q, float("nan"))
    partial = torch.full((partial_size(sequences * heads * splits, dim),), float("nan"), device=platform.device)
    platform.kernels(dim, case.k_cache.dtype).decode(
        case.q, case.k_written, case.v_written, batch.block_tables, batch.context_lens, splits, partial, case.scale,
        case.k_scale, case.v_scale, out,
    )  # fmt: skip
    return out.cpu()


@pytest.mark.parametrize("name", CASES)
def test_all_cases(platform: Platform, name):
    """Writes, ragged and padded batches, block edges, mixed batches whose prefills another back end computes."""
    case = make_case(**CASES[name], dtype=BF16, device=platform.device)
    case.check(run(platform.backend(64, BF16), case))


@pytest.mark.parametrize("dim, dtype, cache_dtype", SHAPES, ids=name_of)
def test_shapes(platform: Platform, dim, dtype, cache_dtype):
    """A ragged batch with padding; groups of one, of one tile of 8 heads (or 4, on CUDA cores), and of two (or three)."""
    for group in (1, 3, 11):
        case = make_case(
            [1] * 5, [3, 40, 16, 81, 17], heads=2 * group, kv_heads=2, dim=dim, dtype=dtype, cache_dtype=cache_dtype,
            padding=1, device=platform.device,
        )  # fmt: skip
        case.check(run(platform.backend(dim, cache_dtype), case))


@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 17, 20])
@pytest.mark.parametrize("dim, dtype", [(64, FP32), (64, BF16)], ids=name_of)
def test_groups(platform: Platform, group, dim, dtype):
    case = make_case([1] * 2, [19, 33], heads=2 * group, kv_heads=2, dim=dim, dtype=dtype)
    case.check(decode(platform, case, 1))


@pytest.mark.parametrize("block_size", [1, 2, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=name_of)
def test_block_sizes(platform: Platform, block_size, dtype):
    contexts = [1, 7, 8, 9, 31, 32, 33, 65, 130]
    case = make_case([1] * 9, contexts, heads=2, kv_heads=1, block_size=block_size, dtype=dtype, padding=1)
    case.check(decode(platform, case, 2))


@pytest.mark.parametrize("splits", [1, 2, 3, 7])
@pytest.mark.parametrize("dim, dtype, cache_dtype", [(64, FP32, FP32), (128, BF16, FP8)], ids=name_of)
def test_splits(platform: Platform, splits, dim, dtype, cache_dtype):
    """Around the 64 tokens that a span is a multiple of; short contexts beside a long one; padding."""
    contexts = [1, 63, 64, 65, 127, 128, 129, 200, 449]
    case = make_case([1] * 9, contexts, heads=3, kv_heads=1, dim=dim, dtype=dtype, cache_dtype=cache_dtype, padding=2)
    case.check(decode(platform, case, splits))


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("dtype", [FP32, FP16], ids=name_of)
def test_equal_scores_average_the_values(platform: Platform, splits, dtype):
    """A cache in fp8 holds 0, 16, ... 240 exactly; their average is 120, and with a scale of 2 it is 240."""
    case = make_case([1], [256], heads=2, kv_heads=1, dtype=dtype, cache_dtype=FP8)
    case.q.zero_()
    case.v_scale.fill_(2.0)
    values = 16.0 * (torch.arange(256) % 16).view(16, 16, 1, 1)  # of 16 blocks
    case.v_written[case.batch.block_tables[0, :16].long()] = values.expand(-1, -1, 1, 64).to(FP8)
    torch.testing.assert_close(decode(platform, case, splits), torch.full_like(case.q, 240.0))


@pytest.mark.parametrize("heads", [1, 2, 12])
@pytest.mark.parametrize("dtype", [FP32, FP16], ids=name_of)
def test_every_value_of_fp8_is_read_as_pytorch_does(platform: Platform, heads, dtype):
    """All 256 codes as V of four sequences with one token: the weight is 1, the result the value, NaN as NaN."""
    case = make_case([1] * 4, [1] * 4, heads=heads, kv_heads=1, dtype=dtype, cache_dtype=FP8)
    codes = torch.arange(256).to(torch.uint8).view(4, 64)
    case.v_scale.fill_(1.0)
    for table, row in zip(case.batch.block_tables[:, 0].tolist(), codes, strict=True):
        case.v_written[table, 0, 0] = row.view(FP8)
    expected = codes.view(FP8).to(dtype)[:, None].expand(-1, heads, -1)
    assert torch.equal(decode(platform, case, 1).nan_to_num(nan=1000), expected.nan_to_num(nan=1000))


@pytest.mark.parametrize("cache_dtype", [FP32, FP16, BF16, FP8], ids=name_of)
def test_every_bf16_value_is_written_as_pytorch_casts_it(platform: Platform, cache_dtype):
    """All 65536 codes: rounding to the nearest, ties to even, subnormals, saturation of fp8, NaN."""
    codes = torch.arange(65536).to(torch.int32).to(torch.int16).view(BF16).view(512, 2, 64)
    scale = torch.tensor([1.0, 3.0], device=platform.device)
    rows, slots = codes.to(platform.device), torch.arange(512, device=platform.device)
    caches = torch.zeros(2, 32, 16, 2, 64, device=platform.device).to(cache_dtype)
    platform.kernels(64, cache_dtype).write(rows, -rows, caches[0], caches[1], slots, scale, scale)
    for sign, cache in zip((1, -1), caches, strict=True):
        expected = to_cache(sign * rows, cache_dtype, scale).float()
        assert torch.equal(cache.view(512, 2, 64).float().nan_to_num(nan=-1e39), expected.nan_to_num(nan=-1e39))


def test_rows_may_be_views_of_a_fused_projection(platform: Platform):
    """[tokens, (heads + 2 kv_heads) * dim] split into q, k and v: rows at a distance, not copied to be close."""
    case = make_case([1] * 3, [20, 5, 33], dtype=BF16, device=platform.device)
    (tokens, heads, dim), kv_heads = case.q.shape, case.k.shape[1]
    fused = torch.cat([case.q, case.k, case.v], dim=1).view(tokens, -1)
    parts = fused.split([heads * dim, kv_heads * dim, kv_heads * dim], dim=1)
    case.q, case.k, case.v = (part.view(tokens, -1, dim) for part in parts)
    assert not case.q.is_contiguous() and not case.k.is_contiguous()
    case.check(run(platform.backend(dim, BF16), case))


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=name_of)
def test_a_nan_within_a_context_shows_and_elsewhere_does_not(platform: Platform, dtype):
    case = make_case([1] * 3, [20, 40, 33], heads=2, kv_heads=1, dtype=dtype)
    case.k_written[case.batch.block_tables[1, 2], 7, 0, 5] = float("nan")  # position 39, the last one of sequence 1
    result = decode(platform, case, 2)
    assert result[1].isnan().all()
    assert not result[[0, 2]].isnan().any()


def test_a_batch_that_splits(platform: Platform):
    """Through the back end: 24 multiprocessors, one sequence of one KV head, a context of 400 tokens are three spans."""
    backend = platform.backend(64, FP32)
    backend.multiprocessors = 24
    case = make_case([1], [400], heads=2, kv_heads=1, device=platform.device)
    case.check(run(backend, case))
    assert backend._plan is not None and backend._plan.splits == 3


def test_what_the_device_refuses_fails_the_step(platform: Platform):
    """A grid without blocks, which `decode` never asks for."""
    kernels = platform.kernels(64, FP32)
    with pytest.raises(StepFailure, match="attention=cuda: paged_decode: invalid configuration"):
        kernels._call("paged_decode", DecodeArguments(sequences=1, kv_heads=0, group=1, splits=1), platform.device)
