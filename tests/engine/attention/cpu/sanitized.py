"""The C++ library built with sanitizers, on small cases: `python -m tests.engine.attention.cpu.sanitized [wrong]`.

Run by test_sanitizers.py with AddressSanitizer's run-time library loaded first. torch's tensors then lie between guarded
bytes. `wrong` reads past the end of a cache on purpose.
"""

import sys

import torch

from engine.attention.cpu import build, library
from engine.attention.cpu.backend import CpuAttention
from engine.attention.fp8 import FP8
from engine.model.cpu_linear import CpuLinear
from engine.model.cpu_ops import CpuOps
from tests.engine.attention.cases import CASES, make_case, run

FLAGS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def attention() -> None:
    backend = CpuAttention()
    for arguments in CASES.values():
        case = make_case(**arguments)
        case.check(run(backend, case))
    for cache_dtype in (torch.float32, torch.bfloat16, torch.float16, FP8):
        for dim in (16, 24, 100):
            case = make_case([1, 21], [66, 65], heads=6, dim=dim, dtype=torch.bfloat16, cache_dtype=cache_dtype)
            case.check(run(backend, case))


def past_the_end() -> None:
    """A table that names a block behind the last one of the pool."""
    case = make_case([1], [30])
    case.batch.block_tables[0, 0] = case.k_cache.shape[0]
    CpuAttention().attend(
        case.q, case.k_written.clone(), case.v_written.clone(), case.batch, case.scale, case.k_scale, case.v_scale
    )


def layers() -> None:
    ops = CpuOps()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for width in (6, 48, 50):
            x, weight = torch.ones(9, width, dtype=dtype), torch.ones(width, dtype=dtype)
            ops.rms_norm(x, weight, 1e-5)
            ops.add_rms_norm(x, x.clone(), weight, 1e-5)
            ops.silu_mul(x)
            heads, angles = torch.ones(9, 3, width, dtype=dtype), torch.ones(9, width // 2)
            ops.rope(heads[:, :2], heads[:, 2:], angles, angles, torch.arange(9))
            if dtype != torch.float16:
                for rows in (1, 8, 9):
                    CpuLinear(torch.ones(50, width, dtype=dtype), torch.ones(50, dtype=dtype))(x[:rows])


if __name__ == "__main__":
    torch.set_num_threads(2)
    path = build.cpu_library(FLAGS)
    library.cpu_library = lambda: path
    if sys.argv[1:] == ["wrong"]:
        past_the_end()
    else:
        attention()
        layers()
        print("clean")
