"""Mistakes in the CUDA source are seen on the host: each mutant computes something wrong, or stops with an error."""

import shutil
from pathlib import Path

import pytest
import torch

from engine.attention.cuda.library import Kernels
from tests.engine.attention.cases import make_case
from tests.engine.attention.cuda.conftest import Platform
from tests.engine.attention.cuda.emulated import emulated_library, mutated_source, set_seed
from tests.engine.attention.cuda.test_kernels import decode
from twin.core.errors import DeviceError

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")

SEEDS = range(1, 6)
WRONG_ANSWER = AssertionError
MUTANTS = {
    "a barrier is missing before the maxima of other warps are read": (
        "decode.cuh", "  __syncthreads();\n  const auto largest", "  const auto largest", WRONG_ANSWER, "not close"),
    "a barrier is missing in the merge of spans": (
        "decode.cuh", "  __syncthreads();\n  if (part > 0) return;", "  if (part > 0) return;", WRONG_ANSWER, "not close"),
    "one warp passes a barrier": (
        "decode.cuh", "  __syncthreads();\n  const auto largest", "  if (warp) __syncthreads();\n  const auto largest",
        DeviceError, "a barrier in divergent code"),
    "the mask lets in a token past the context": (
        "decode_tensor_cores.cuh", "start + j * 8 + g < span.end ?", "start + j * 8 + g <= span.end ?",
        WRONG_ANSWER, "not close"),
    "a slot past the context is read": (
        "decode.cuh", "const int token = min(t, end - 1);", "const int token = min(t, end);", WRONG_ANSWER, "not close"),
    "a reduction over lanes is short": (
        "decode_cuda_cores.cuh", "int distance = LANES / 2; distance;", "int distance = LANES / 4; distance;",
        WRONG_ANSWER, "not close"),
    "some lanes skip a shuffle": (
        "decode_cuda_cores.cuh", "        if (live[u]) largest = fmaxf(largest, score[u]);",
        "        if (live[u]) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, score[u], 0));",
        DeviceError, "a barrier in divergent code"),
}  # fmt: skip


def check(kernels: Kernels, seed: int) -> None:
    """Groups of one and of three, on CUDA cores and tensor cores, over contexts at and beside the edges."""
    set_seed(kernels, seed)
    platform = Platform(torch.device("cpu"), lambda head_dim, cache_dtype: kernels)
    for group in (1, 3):
        case = make_case([1] * 5, [1, 16, 47, 65, 150], heads=group, kv_heads=1, dtype=torch.float16)
        case.check(decode(platform, case, 2))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant(mutant, tmp_path: Path):
    file, old, new, error, message = MUTANTS[mutant]
    source = mutated_source(tmp_path, file, old, new)
    kernels = Kernels(emulated_library(tmp_path, 64, torch.float16, source), 64, torch.float16)
    with pytest.raises(error, match=message):
        for seed in SEEDS:
            check(kernels, seed)


def test_the_order_of_threads_changes_nothing(platform: Platform):
    """To the bit."""
    if platform.device.type != "cpu":
        pytest.skip("the device's order is its own")
    kernels = platform.kernels(64, torch.float16)
    case = make_case([1] * 3, [16, 47, 150], heads=3, kv_heads=1, dtype=torch.float16)
    results = []
    for seed in SEEDS:
        check(kernels, seed)
        results.append(decode(platform, case, 2))
    assert all(torch.equal(result, results[0]) for result in results)
