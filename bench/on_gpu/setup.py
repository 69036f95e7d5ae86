"""What is measured and how large: on a GPU, and in a dry run on the CPU that only shows that the program works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GB, MB = 10**9, 10**6


@dataclass(frozen=True)
class Setup:
    """Plain values: every process of the run is given them."""

    device: str  # cuda, cpu
    folder: Path
    backends: tuple[str, ...]  # of attention, whose bandwidth is measured, the fastest first
    recordable: tuple[str, ...]  # of these, those whose launches a CUDA graph may hold
    groups: tuple[int, ...]  # query heads that share a KV head
    head_dims: tuple[int, ...]
    kv_dtypes: tuple[str, ...]
    kv_heads: int
    batches: tuple[int, ...]
    contexts: tuple[int, ...]  # tokens
    most_kv_bytes: int  # of one point
    copy_bytes: int  # that the device's copy reads, and writes as many
    round_bytes: int  # KV that one timing reads at least, beside what the L2 cache asks for
    model: tuple[str, ...]  # options of the model whose decode steps are measured
    decode_batches: tuple[int, ...]
    decode_contexts: tuple[int, ...]
    profile: tuple[str, ...]  # more options of `engine profile`
    run_lengths: tuple[int, ...]  # blocks of a run that is swapped
    swap_blocks: int
    swap_layers: int
    repeats: int = 5
    check_groups: int | None = None  # so many groups of checks of a back end; None: all

    @property
    def dry_run(self) -> bool:
        return self.device == "cpu"


def on_gpu(folder: Path) -> Setup:
    return Setup(
        device="cuda", folder=folder, backends=("cuda", "triton", "torch"), recordable=("cuda", "triton"),
        groups=(4, 8, 1), head_dims=(128, 64), kv_dtypes=("bf16", "fp8"), kv_heads=8,
        batches=(1, 8, 64, 256), contexts=(1024, 4096, 16384, 65536),
        most_kv_bytes=4_500 * MB, copy_bytes=2 * GB, round_bytes=256 * MB,
        model=("model=llama3.1-8b", "engine.weights=random"),
        decode_batches=(1, 2, 4, 8, 16, 32, 64, 128, 256), decode_contexts=(1024, 8192),
        profile=("model.max_model_len=16384",),
        run_lengths=(1, 2, 4, 8, 16, 32, 64), swap_blocks=512, swap_layers=32,
    )  # fmt: skip


def on_cpu(folder: Path) -> Setup:
    """The same program with a tiny model and tiny sizes."""
    return Setup(
        device="cpu", folder=folder, backends=("cpu", "torch"), recordable=("cpu",),
        groups=(4, 1), head_dims=(64,), kv_dtypes=("bf16", "fp8"), kv_heads=2,
        batches=(1, 3), contexts=(16, 40),
        most_kv_bytes=50_000, copy_bytes=1 * MB, round_bytes=50_000,
        model=("model=tiny", "engine.weights=random", "engine.threads=1", "model.max_model_len=256"),
        decode_batches=(1, 4), decode_contexts=(32,),
        profile=("cache.num_gpu_blocks=64", "scheduler.max_num_seqs=8", "scheduler.max_num_batched_tokens=64"),
        run_lengths=(1, 4), swap_blocks=8, swap_layers=2, repeats=2, check_groups=1,
    )  # fmt: skip
