"""Everything is compiled before it is measured: many compilers at a time, results in the user's caches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Part, Row
from bench.on_gpu.setup import Setup
from engine.attention.choose import Wanted, make
from engine.build import TORCH_DTYPES
from engine.checks.case import attend
from engine.checks.cases import make_case

# (head dim, dtype of the cache): those of the checks, and fp8 for heads of 128
LIBRARIES = tuple((64, dtype) for dtype in ("bf16", "fp8", "fp32", "fp16")) + tuple(
    (dim, dtype) for dim, dtype in ((128, "bf16"), (128, "fp8"), (256, "bf16"), (96, "bf16"))
)
WARM_UPS = (([1], [4096]), ([1] * 256, [64] * 256))  # contexts that are cut into parts, and ones that are not


def parts(setup: Setup) -> dict[str, Part]:
    if setup.dry_run:
        return {"g++": cpu_library}
    found: dict[str, Part] = {
        f"nvcc, heads of {dim}, {dtype}": partial(cuda_library, dim, dtype) for dim, dtype in LIBRARIES
    }
    for group in setup.groups:
        for dim in setup.head_dims:
            for dtype in setup.kv_dtypes:
                found[f"Triton, groups of {group}, heads of {dim}, {dtype}"] = partial(triton_kernels, group, dim, dtype)
    return found


def cuda_library(dim: int, dtype: str, setup: Setup, deadline: Deadline) -> Iterator[Item]:
    from engine.attention.cuda.build import build_for_gpu

    began_s = deadline.clock()
    build_for_gpu(dim, TORCH_DTYPES[dtype], torch.cuda.get_device_capability(setup.device))
    yield _row("nvcc", f"heads of {dim}, {dtype}", deadline.clock() - began_s)


def triton_kernels(group: int, dim: int, dtype: str, setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Triton compiles at a launch, so these are launched."""
    began_s = deadline.clock()
    device, kv_dtype = torch.device(setup.device), TORCH_DTYPES[dtype]
    backend = make("triton", Wanted(device, dim, 16, kv_dtype)).backend
    for query_lens, contexts in WARM_UPS:
        case = make_case(
            query_lens, contexts, heads=group * setup.kv_heads, kv_heads=setup.kv_heads, dim=dim, dtype=torch.bfloat16,
            cache_dtype=kv_dtype, device=device,
        )  # fmt: skip
        attend(backend, case)
    yield _row("triton", f"groups of {group}, heads of {dim}, {dtype}", deadline.clock() - began_s)


def cpu_library(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    began_s = deadline.clock()
    make("cpu", Wanted(torch.device("cpu"), 64, 16, torch.bfloat16))
    yield _row("g++", "the CPU's kernels", deadline.clock() - began_s)


def _row(compiler: str, of: str, seconds: float) -> Row:
    return Row("build", {"compiler": compiler, "of": of, "seconds": seconds})
