"""The C++ back end against the definition, over all that the interface allows."""

import itertools

import pytest
import torch

from engine.attention.base import AttentionBatch
from engine.attention.cpu import library
from engine.attention.cpu.backend import CpuAttention
from engine.attention.fp8 import FP8
from engine.attention.reference import ReferenceAttention
from tests.engine.attention.cases import CASES, Share, make_case, run

pytestmark = pytest.mark.skipif(CpuAttention.why_not() is not None, reason=f"{CpuAttention.why_not()}")

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_the_common_cases(name: str, threads: int):
    case = make_case(**CASES[name])
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("dtype, cache_dtype", list(itertools.product(FLOATS, (*FLOATS, FP8))), ids=str)
def test_dtypes(dtype: torch.dtype, cache_dtype: torch.dtype):
    case = make_case([1, 1, 20, 7], [50, 1, 20, 64], heads=6, kv_heads=2, dtype=dtype, cache_dtype=cache_dtype)
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("dim", [16, 24, 32, 40, 64, 80, 96, 112, 128, 192, 256])
def test_head_sizes(dim: int):
    case = make_case([1, 1, 9], [70, 3, 25], dim=dim)
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("dim, cache_dtype", list(itertools.product([16, 24, 80], FLOATS[1:] + (FP8,))), ids=str)
def test_head_sizes_of_narrow_caches(dim: int, cache_dtype: torch.dtype):
    case = make_case([1, 9], [70, 25], dim=dim, dtype=torch.float32, cache_dtype=cache_dtype)
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("group", range(1, 10))
def test_groups(group: int):
    case = make_case([1, 1, 30], [65, 7, 90], heads=2 * group, kv_heads=2, dim=32)
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("block_size", [1, 3, 16, 100])
def test_block_sizes(block_size: int):
    shared = -(-33 // block_size) if block_size <= 16 else 0
    reader = shared * block_size + 5
    case = make_case(
        [1, 60], [max(reader, 66), 60], block_size=block_size, dim=32, shares=[Share(0, 1, shared)] if shared else []
    )
    case.check(run(CpuAttention(), case))


@pytest.mark.parametrize("context", [1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300])
def test_contexts_around_the_edges_of_chunks(context: int):
    decode = make_case([1], [context], dim=16)
    decode.check(run(CpuAttention(), decode))
    if context > 1:
        prefill = make_case([context], [context], dim=16, heads=3, kv_heads=1)
        prefill.check(run(CpuAttention(), prefill))


def test_a_row_is_the_same_to_the_bit_whole_in_chunks_and_alone():
    """What a prompt gives must not depend on how it was cut: sampling after a preemption must repeat itself."""
    whole = make_case([150], [150], heads=6, kv_heads=2)
    want = run(CpuAttention(), whole)
    backend = CpuAttention()
    for start, end in ((0, 37), (37, 64), (64, 149), (149, 150), (99, 100)):
        rows, batch = end - start, whole.batch
        part = AttentionBatch(
            query_start=torch.tensor([0, rows], dtype=torch.int32), context_lens=torch.tensor([end], dtype=torch.int32),
            block_tables=batch.block_tables, slots=batch.slots[start:end], positions=batch.positions[start:end],
            num_decodes=int(rows == 1), query_lens=[rows], contexts=[end],
        )  # fmt: skip
        got = backend.attend(
            whole.q[start:end], whole.k_written, whole.v_written, part, whole.scale, whole.k_scale, whole.v_scale
        )
        assert torch.equal(got, want[start:end])


def test_rows_may_be_views_of_a_wider_tensor():
    case = make_case([1, 12], [40, 30], heads=6, kv_heads=2)
    want = run(CpuAttention(), case)
    qkv = torch.cat([case.q, case.k, case.v], dim=1)
    case.q, case.k, case.v = qkv.split([6, 2, 2], dim=1)
    assert not case.q.is_contiguous()
    backend = CpuAttention()
    k_cache, v_cache = case.k_cache.clone(), case.v_cache.clone()
    backend.write(case.k, case.v, k_cache, v_cache, case.batch, case.k_scale, case.v_scale)
    case.check_written(k_cache, v_cache)
    assert torch.equal(backend.attend(case.q, k_cache, v_cache, case.batch, case.scale, case.k_scale, case.v_scale), want)


@pytest.mark.parametrize("which", ["k_written", "v_written"])
def test_a_nan_within_the_context_comes_out(which: str):
    """What is not a number must be seen: the engine fails such a request, and the NaN of unread slots must tell."""
    case = make_case([1, 5], [40, 30], heads=4, kv_heads=2)
    block, head = case.batch.block_tables[1, 0], 1
    getattr(case, which)[block, 3, head, 5] = float("nan")
    out = CpuAttention().attend(case.q, case.k_written, case.v_written, case.batch, case.scale, case.k_scale, case.v_scale)
    assert out.isnan().any(-1).tolist() == [[False] * 4] + [[False, False, True, True]] * 5


def test_scores_far_apart_neither_overflow_nor_vanish():
    """Scores of some +-800, beyond what exp can hold; fp32 has them to 1e-4, and the exponential passes that on."""
    case = make_case([1, 5], [100, 70])
    case.q *= 100
    given = case.q, case.k_written, case.v_written, case.batch, case.scale, case.k_scale, case.v_scale
    want = ReferenceAttention().attend(*given)
    torch.testing.assert_close(CpuAttention().attend(*given), want, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("dtype", [*FLOATS[1:], FP8], ids=str)
def test_every_narrow_value_is_read_as_torch_reads_it(dtype: torch.dtype):
    """With one position the softmax is 1, and what comes out is V: all bit patterns but infinities go through."""
    bits = torch.arange(1 << 8 * dtype.itemsize)
    values = (bits.to(torch.uint8) if dtype == FP8 else (bits - (1 << 15)).to(torch.int16)).view(dtype)
    values = values[values.float().isfinite()]
    values = values[: len(values) // 16 * 16].view(-1, 1, 1, 16)
    case = make_case([1] * len(values), [1] * len(values), heads=1, kv_heads=1, dim=16, block_size=1)
    case.batch.block_tables = torch.arange(len(values), dtype=torch.int32)[:, None].contiguous()
    keys = torch.zeros_like(values)
    ones = torch.ones(1)
    out = CpuAttention().attend(case.q, keys, values, case.batch, 1.0, ones, ones)
    assert torch.equal(out, values.float().view_as(out))


@pytest.mark.parametrize("dtype", [*FLOATS[1:], FP8], ids=str)
def test_rounding_is_that_of_torch(dtype: torch.dtype):
    """Ties, subnormals, the largest values and what lies beyond, NaN: random bits of fp32 and values around every step."""
    exact = torch.arange(256, dtype=torch.uint8).view(FP8).float()
    exact = exact[exact.isfinite()].sort().values
    ties = (exact[1:] + exact[:-1]) / 2
    random = torch.randint(-(2**31), 2**31 - 1, (4096,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    special = torch.tensor([0.0, -0.0, 448.0, 449.0, 464.0, 465.0, 1e30, -1e30, float("nan"), 2**-10, 3 * 2**-11, 65504.0])
    values = torch.cat([exact, ties, torch.nextafter(ties, ties * 2), random.view(torch.float32), special])
    values = values[: len(values) // 16 * 16].view(-1, 1, 16)
    cache = torch.zeros(len(values), 1, 1, 16).to(dtype)
    case = make_case([1] * len(values), [1] * len(values), heads=1, kv_heads=1, dim=16, block_size=1)
    case.batch.slots = torch.arange(len(values))
    other, ones = cache.clone(), torch.ones(1)
    CpuAttention().write(values, values, cache, other, case.batch, ones, ones)
    want = (values.clamp(-448, 448) if dtype == FP8 else values).to(dtype).view_as(cache)
    same = cache.view(torch.uint8).view(len(values), -1) == want.view(torch.uint8).view(len(values), -1)
    both_nan = cache.float().isnan() & want.float().isnan()
    assert (same.view(*cache.shape, -1).all(-1) | both_nan).all()


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    library.library.cache_clear()
    library.why_not.cache_clear()
    try:
        assert CpuAttention.why_not() == "there is no g++ on this machine (nothing of that name on PATH)"
    finally:
        library.library.cache_clear()
        library.why_not.cache_clear()
