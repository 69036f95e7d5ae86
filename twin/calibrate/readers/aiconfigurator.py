"""Kernel times in the layout of aiconfigurator's `systems/data/GPU` (milliseconds a call), for any model shape.

    gemm/vllm/VERSION/gemm_perf.parquet                              m, n, k
    attention/vllm/VERSION/{context,generation}_attention_perf.parquet   batch_size, isl, step, heads
    comm/vllm/VERSION/custom_allreduce_perf.parquet                  num_gpus, message_size (elements)

Not measured there, and put in from elsewhere: kernels that go over all values once (norms, rotation, activation, residuals)
take their bytes over POINTWISE_SHARE of the bandwidth, at least POINTWISE_S each; the sampler's times are those that
LLMServingSim measured on an RTX PRO 6000.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twin.calibrate.readers.frames import read_frame, require
from twin.latency.surface import Knots, Surface, curve, line_at
from twin.latency.table import KernelTables

if TYPE_CHECKING:
    from pandas import DataFrame

    from twin.memory import Gpu, ModelShape

POINTWISE_S, POINTWISE_SHARE, POINTWISE_KERNELS = 2.5e-6, 0.8, 6
SAMPLER_S, SAMPLER_PER_SEQ_S = 3e-5, 3e-7
MOST_TOKENS, MOST_SEQUENCES = 16384, 512
DTYPE = {"bf16": "bfloat16", "fp16": "bfloat16"}


def is_aiconfigurator(folder: Path) -> bool:
    return (folder / "gemm").is_dir() and (folder / "attention").is_dir()


def read_aiconfigurator(folder: Path, model: ModelShape, gpu: Gpu, gpus: int) -> tuple[KernelTables, str, str]:
    """(tables of all layers of one GPU's share, version, device)."""
    gemm_file = _newest(folder / "gemm" / "vllm", "gemm_perf.parquet")
    frame = _rows(gemm_file, ("gemm_dtype", "m", "n", "k", "latency"), {"gemm_dtype": DTYPE.get(model.dtype, model.dtype)})
    products = _Products(frame)
    tokens = sorted(int(m) for m in set(frame["m"]) if m <= MOST_TOKENS)
    all_reduce = _all_reduce(folder, gpus)

    def dense(m: int) -> float:
        communication = 2 * line_at(all_reduce, m * model.hidden)[0] if all_reduce else 0.0
        return model.layers * (_pointwise(model, gpu, gpus, m) + products.layer(model, gpus, m) + communication)

    def head(m: int) -> float:
        return products.seconds(m, model.vocab // gpus, model.hidden) + SAMPLER_S + SAMPLER_PER_SEQ_S * m

    context, generation = (_attention(folder, name, model, gpus) for name in ("context", "generation"))
    tables = KernelTables(
        dense=curve([(m, dense(m)) for m in tokens], "dense"),
        head=curve([(m, head(m)) for m in tokens if m <= MOST_SEQUENCES], "head"),
        decode_attention=Surface([(n, step + 1, s) for n, _, step, s in generation], "decode"),
        prefill_attention=Surface([(n * p, p / 2, s) for n, p, _, s in context if n * p <= MOST_TOKENS], "prefill"),
        source=str(folder),
    )
    device = str(frame["device"].iloc[0]) if "device" in frame else folder.name
    return tables, gemm_file.parent.name, device


class _Products:
    """Seconds of matrix products, between the sizes that were measured."""

    def __init__(self, frame: DataFrame) -> None:
        means = frame.groupby(["m", "n", "k"], as_index=False)["latency"].mean()
        sizes = zip(means["m"].tolist(), means["n"].tolist(), means["k"].tolist(), strict=True)
        self.known = dict(zip(sizes, (means["latency"] * 1e-3).tolist(), strict=True))
        self.widths = sorted({n for _, n, _ in self.known})

    def layer(self, model: ModelShape, gpus: int, m: int) -> float:
        """The four products of a layer, of one GPU's share."""
        heads, kv_heads = model.heads // gpus, max(1, model.kv_heads // gpus)
        inner = model.intermediate // gpus
        into, out = (heads + 2 * kv_heads) * model.head_dim, heads * model.head_dim
        shapes = ((into, model.hidden), (model.hidden, out), (2 * inner, model.hidden), (model.hidden, inner))
        return sum(self.seconds(m, n, k) for n, k in shapes)

    def seconds(self, m: int, n: int, k: int) -> float:
        """Of an (m, k) by (k, n) product; beyond the widest in proportion."""
        widest = self.widths[-1]
        if n > widest:
            return self.seconds(m, widest, k) * n / widest
        if n in self.widths:
            return self._at_width(m, n, k)
        return line_at(curve([(width, self._at_width(m, width, k)) for width in self.widths], "gemm"), n)[0]

    def _at_width(self, m: int, n: int, k: int) -> float:
        measured = [(depth, self.known[m, n, depth]) for depth in self.widths if (m, n, depth) in self.known]
        return line_at(curve(measured, f"gemm of {m} rows and {n} columns"), k)[0]


def _pointwise(model: ModelShape, gpu: Gpu, gpus: int, m: int) -> float:
    shared = (3 * model.intermediate + 2 * (model.heads + model.kv_heads) * model.head_dim) // gpus
    moved = m * (8 * model.hidden + shared) * model.dtype_bytes
    return max(POINTWISE_KERNELS * POINTWISE_S, moved / (POINTWISE_SHARE * gpu.bandwidth_gb_s * 1e9))


def _attention(folder: Path, name: str, model: ModelShape, gpus: int) -> list[tuple[float, float, float, float]]:
    """(batch, new tokens, tokens before, seconds of all layers) of each measurement with the heads of one GPU."""
    path = _newest(folder / "attention" / "vllm", f"{name}_attention_perf.parquet")
    names = ("batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype", "latency")
    cache = model.kv_cache_dtype if model.kv_cache_dtype != "auto" else model.dtype
    wanted = {
        "num_heads": model.heads // gpus,
        "num_key_value_heads": max(1, model.kv_heads // gpus),
        "head_dim": model.head_dim,
        "kv_cache_dtype": DTYPE.get(cache, cache),
    }
    frame = _rows(path, names, wanted)
    if "window_size" in frame:
        frame = frame[frame["window_size"] == 0]
    seconds = frame["latency"] * 1e-3 * model.layers
    return list(zip(frame["batch_size"], frame["isl"], frame["step"], seconds, strict=True))


def _all_reduce(folder: Path, gpus: int) -> Knots | None:
    """Seconds over elements of a message, as in a CUDA graph."""
    if gpus == 1:
        return None
    path = _newest(folder / "comm" / "vllm", "custom_allreduce_perf.parquet")
    frame = _rows(path, ("num_gpus", "message_size", "latency", "backend"), {"num_gpus": gpus, "backend": "vllm_graph"})
    return curve(zip(frame["message_size"], frame["latency"] * 1e-3, strict=True), "all-reduce")


def _newest(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"*/{name}"))
    if not found:
        raise ValueError(f"{folder}: no folder in it holds {name}")
    return found[-1]


def _rows(path: Path, names: tuple[str, ...], wanted: dict[str, object]) -> DataFrame:
    """The rows with these values, and with times above 0."""
    frame = read_frame(path)
    require(frame, names, path, "an aiconfigurator table")
    for name, value in wanted.items():
        there = ", ".join(map(str, sorted(set(frame[name]))[:12]))
        frame = frame[frame[name] == value]
        if frame.empty:
            raise ValueError(f"{path}: nothing was measured with {name}={value}; there are {there}")
    if not (frame["latency"] > 0).all():
        raise ValueError(f"{path}: latency must be above 0 ms")
    return frame
