"""The kernels compiled to machine code for a GPU that need not be here, and what they take of it.

    python -m engine.attention.triton.ahead_of_time     a table over GPUs, dtypes and head sizes

For tests, and for choosing `tiles`; the engine itself compiles when it launches.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.attention.fp8 import FP8
from engine.attention.triton import kernels
from engine.attention.triton.tiles import Layer, Machine, choose_tiles
from engine.attention.triton.variants import attention_variant, merge_variant, write_variant

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"  # ptxas and cuobjdump, as the wheel brings them
TOOL_TIMEOUT_S = 60
POINTERS = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")
# 16 divides addresses and strides of rows, as at a launch in a model with head sizes of 16 n.
ALIGNED = re.compile(r"[qkvx]_(row|head|outer|inner)|residual_row|gate_up_row")


@dataclass(frozen=True)
class Compiled:
    """One kernel for one GPU."""

    name: str
    ptx: str
    cubin: bytes
    shared_bytes: int  # of a block, as asked for at the launch

    def resources(self) -> tuple[int, int]:
        """Registers, and bytes of local memory (where those go that are spilled), of a thread."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(self.cubin)
            file.flush()
            command = [str(TOOLS / "cuobjdump"), "-res-usage", file.name]
            answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TOOL_TIMEOUT_S)
        used = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", answer.stdout)}
        return used["REG"], used["STACK"] + used["LOCAL"]

    @property
    def tensor_core_instructions(self) -> int:
        """mma.sync (sm_80), wgmma (sm_90) and tcgen05.mma (sm_100) in the PTX."""
        return len(re.findall(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)", self.ptx))


def compile_attention(capability: int, layer: Layer, decode: bool, split: bool) -> Compiled:
    """`paged_attention` as `TritonAttention` would launch it on such a GPU."""
    machine = Machine(multiprocessors=1, capability=capability)  # how many does not change the code
    tiles = choose_tiles(machine, layer, decode)
    cache = _cache_pointer(layer, machine.converts_fp8)
    rows = POINTERS[layer.dtype]
    types = {
        "q": rows, "out": rows, "k_cache": cache, "v_cache": cache, "k_scale": "*fp32", "v_scale": "*fp32", "scale": "fp32",
        "part_out": "*fp32" if split else rows, "part_lse": "*fp32" if split else rows,
        "block_tables": "*i32", "query_start": "*i32", "context_lens": "*i32",
    }  # fmt: skip
    return compile_kernel(capability, kernels.paged_attention, types, attention_variant(layer, machine, tiles, split))


def compile_merge(capability: int, layer: Layer) -> Compiled:
    types = {"out": POINTERS[layer.dtype], "part_out": "*fp32", "part_lse": "*fp32"}
    return compile_kernel(capability, kernels.merge, types, merge_variant(layer))


def compile_write(capability: int, layer: Layer) -> Compiled:
    rows, cache = POINTERS[layer.dtype], _cache_pointer(layer, converts_fp8=False)
    types = {
        "k": rows, "v": rows, "k_cache": cache, "v_cache": cache, "slots": "*i64", "k_scale": "*fp32", "v_scale": "*fp32",
    }  # fmt: skip
    return compile_kernel(capability, kernels.write_kv, types, write_variant(layer))


def _cache_pointer(layer: Layer, converts_fp8: bool) -> str:
    if layer.cache_dtype == FP8:
        return "*fp8e4nv" if converts_fp8 else "*u8"
    return POINTERS[layer.cache_dtype]


def compile_kernel(capability: int, kernel: Any, types: dict[str, str], variant: dict[str, Any]) -> Compiled:
    """`types`: Triton's names of the arguments' types; those that are not named are i32."""
    options = {name: variant[name] for name in OPTIONS if name in variant}
    constants = {name: value for name, value in variant.items() if name not in OPTIONS}
    names = [parameter.name for parameter in kernel.params]
    assert {*types, *constants} <= set(names)
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    aligned = [i for i, name in enumerate(names) if signature[name].startswith("*") or ALIGNED.fullmatch(name)]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return Compiled(kernel.fn.__name__, compiled.asm["ptx"], compiled.asm["cubin"], compiled.metadata.shared)


def _table() -> Iterator[str]:
    yield "GPU     dtype     cache          dim  kernel                    registers  local bytes  shared bytes  mma"
    for capability in (80, 90, 100):
        for dtype, cache_dtype in ((torch.bfloat16,) * 2, (torch.bfloat16, FP8), (torch.float32,) * 2):
            for dim in (64, 128, 256):
                layer = Layer(8, 4, dim, 16, dtype, cache_dtype)
                built = {
                    f"attention {'decode' if decode else 'prefill'}{' split' * split}": compile_attention(
                        capability, layer, decode, split
                    )
                    for decode in (True, False)
                    for split in (False, True)
                } | {"merge": compile_merge(capability, layer), "write": compile_write(capability, layer)}
                for name, kernel in built.items():
                    registers, local_bytes = kernel.resources()
                    yield (
                        f"sm_{capability:<4} {str(dtype)[6:]:9} {str(cache_dtype)[6:]:13} {dim:4}  {name:25} {registers:9} "
                        f"{local_bytes:12} {kernel.shared_bytes:13} {kernel.tensor_core_instructions:4}"
                    )


if __name__ == "__main__":
    for line in _table():
        print(line, flush=True)
