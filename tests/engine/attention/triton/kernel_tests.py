"""What the Triton kernels compute. Run by test_kernels.py in a process of its own: under the interpreter, or on the GPU.

TRITON_INTERPRET=1 pytest tests/engine/attention/triton/kernel_tests.py
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from engine.attention.fp8 import FP8, to_cache
from engine.attention.triton import kernels
from engine.attention.triton.backend import INTERPRETED, TritonAttention, find_machine
from engine.attention.triton.tiles import Machine
from tests.engine.attention.cases import CASES, make_case, run

torch.set_num_threads(1)
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
MACHINE = find_machine(DEVICE)
# Sizes as for a real GPU; under the interpreter not with bf16, which it cannot multiply.
GPU = Machine(132, 90) if INTERPRETED else MACHINE
# So many multiprocessors that each context is split as far as FEWEST_KEYS lets it.
SPLITTING = replace(GPU, multiprocessors=4096)


def check(machine: Machine = MACHINE, **case: Any) -> None:
    built = make_case(**case, device=DEVICE)
    built.check(run(TritonAttention(DEVICE, machine=machine), built))


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    check(**CASES[name])


@pytest.mark.parametrize(
    "name", ["decode padded to 8 (eng-01, eng-02)", "mixed and padded", "a prefill reads what another writes"]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype, name: str) -> None:
    check(**CASES[name], dtype=dtype)


@pytest.mark.parametrize("name", ["decode ragged", "mixed", "padding alone"])
def test_tiles_of_a_gpu(name: str) -> None:
    check(GPU, **CASES[name], dtype=torch.float16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_fp8_cache(dtype: torch.dtype) -> None:
    check(**CASES["mixed and padded"], dtype=dtype, cache_dtype=FP8)


def test_fp8_cache_without_instructions_for_it() -> None:
    without = replace(MACHINE, capability=80, interpreted=False)
    assert not without.converts_fp8
    check(without, **CASES["mixed and padded"], dtype=torch.float16, cache_dtype=FP8)


def test_cache_of_another_dtype() -> None:
    """Not bf16: the interpreter cuts fp32 off where a GPU rounds."""
    check(**CASES["mixed and padded"], dtype=torch.float32, cache_dtype=torch.float16)


@pytest.mark.parametrize("dim", [8, 24, 80, 96, 128, 192, 256])
def test_head_sizes(dim: int) -> None:
    check(query_lens=[1, 5], contexts=[30, 21], dim=dim)


@pytest.mark.parametrize("block_size", [8, 12, 32, 128])
def test_block_sizes(block_size: int) -> None:
    check(query_lens=[1, 1, 9], contexts=[block_size, 3 * block_size + 1, 2 * block_size + 1], dim=16, block_size=block_size)


@pytest.mark.parametrize("group", [16, 20, 48])
def test_large_groups(group: int) -> None:
    check(query_lens=[1, 5], contexts=[30, 21], heads=group, kv_heads=1, dim=16)


@pytest.mark.parametrize("cache_dtype", [torch.float16, FP8])
def test_splits(cache_dtype: torch.dtype) -> None:
    """Contexts of 3 parts and of less; the chunk's tiles end in different parts."""
    one_head: dict[str, Any] = dict(heads=2, kv_heads=1, dim=16, dtype=torch.float16, cache_dtype=cache_dtype)
    check(SPLITTING, query_lens=[1, 1, 1], contexts=[770, 256, 5], padding=1, **one_head)
    check(SPLITTING, query_lens=[1, 130, 7], contexts=[300, 530, 7], **one_head)


def test_empty_parts_are_not_read() -> None:
    """While a CUDA graph is captured, contexts on the host are upper bounds: then most parts see nothing."""
    case = make_case(query_lens=[1] * 3, contexts=[3, 37, 300], padding=1, dim=16, dtype=torch.float16, device=DEVICE)
    case.batch.contexts = [2048] * 4
    torch.use_deterministic_algorithms(True)  # fills torch.empty with NaN
    try:
        case.check(run(TritonAttention(DEVICE, machine=SPLITTING), case))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("seed", range(5))
def test_random_steps(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=random))

    decodes, prefills = draw(0, 3), draw(1, 2)
    query_lens = [1] * decodes + [draw(2, 30) for _ in range(prefills)]
    contexts = [rows + draw(0, 60) for rows in query_lens]
    kv_heads, dim = draw(1, 3), 8 * draw(1, 8)
    heads = kv_heads * draw(1, 8)
    check(
        query_lens=query_lens, contexts=contexts, padding=draw(0, 2), kv_heads=kv_heads, heads=heads, dim=dim,
        block_size=2 ** draw(3, 6), seed=seed,
    )  # fmt: skip


def test_rows_may_be_views_of_one_projection() -> None:
    case = make_case(**CASES["mixed and padded"], device=DEVICE)
    heads, kv_heads = case.q.shape[1], case.k.shape[1]
    fused = torch.cat([case.q, case.k, case.v], dim=1)
    case.q, case.k, case.v = fused.split([heads, kv_heads, kv_heads], dim=1)
    assert not case.q.is_contiguous() and not case.k.is_contiguous()
    case.check(run(TritonAttention(DEVICE), case))


def test_fp8_is_written_as_torch_rounds_it() -> None:
    """All bf16 numbers, and those halfway between two of e4m3, by a scale of 1: the same bits as torch's cast."""
    bf16 = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16).float()
    codes = torch.arange(127, dtype=torch.uint8).view(FP8).float()
    halfway = (codes[1:] + codes[:-1]) / 2
    numbers = torch.cat([bf16, halfway, -halfway])
    rows = torch.nn.functional.pad(numbers, (0, -len(numbers) % 2048)).view(-1, 8, 256).to(DEVICE)
    scale = torch.ones(8, device=DEVICE)
    case = make_case(
        query_lens=[len(rows)], contexts=[len(rows)], heads=8, kv_heads=8, dim=256, cache_dtype=FP8, device=DEVICE
    )
    k_cache, v_cache = torch.zeros_like(case.k_cache), torch.zeros_like(case.v_cache)
    TritonAttention(DEVICE).write(rows, -rows, k_cache, v_cache, case.batch, scale, scale)
    for cache, written in ((k_cache, rows), (v_cache, -rows)):
        stored = cache.view(torch.uint8).flatten(0, 1)[case.batch.slots]
        expected = to_cache(written, FP8, scale).view(torch.uint8)
        assert torch.equal(stored[~written.isnan()], expected[~written.isnan()])
        assert (stored[written.isnan()] & 0x7F == 0x7F).all()


@triton.jit
def _read_codes(codes, out):
    code = tl.arange(0, 256)
    tl.store(out + code, kernels.float_from_cache(tl.load(codes + code), tl.float32))


def test_bits_of_e4m3_are_read_as_torch_reads_them() -> None:
    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE)
    out = torch.empty(256, device=DEVICE)
    _read_codes[(1,)](codes, out)
    torch.testing.assert_close(out, codes.view(FP8).float(), rtol=0, atol=0, equal_nan=True)
