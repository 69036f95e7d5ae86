"""Measured end-to-end points, and with what they were served: for bench/end_to_end.py."""

import csv
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SHIPPED = {("llama3.1-8b", "h100", 1)}  # of the points below, what conf/latency/fitted/ has
QWEN3 = ("model=qwen3-32b",)
MODELS = {  # name: options of the model; shapes from config.json of each on Hugging Face
    "llama3.1-8b": ("model=llama3.1-8b",),
    "qwen3-8b": (
        *QWEN3,
        "model.name=qwen3-8b",
        "model.layers=36",
        "model.hidden=4096",
        "model.heads=32",
        "model.intermediate=12288",
    ),
    "qwen3-14b": (*QWEN3, "model.name=qwen3-14b", "model.layers=40", "model.heads=40", "model.intermediate=17408"),
    "qwen3-32b": QWEN3,
}
TABLES = {"h100": "h100_sxm", "a100-80g": "a100_sxm"}
SERVED = {"meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b", "Qwen/Qwen3-32B": "qwen3-32b"}
SERVERS = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}
# SGLang computes prompts first and alone, and decodes when none waits. vLLM plans a step while one computes since 0.14.
SYNCHRONOUS = ("scheduler.async_scheduling=false",)
SCHEDULERS = {"sglang": ("policy=prefill_first", "scheduler.enable_chunked_prefill=true"), "vllm": SYNCHRONOUS}
# Tokens a step and seats of an API server of vLLM V1, by its own defaults for the device. TensorRT-LLM and SGLang take 8,192
# tokens a step by default too.
LIMITS = {"h100": (8192, 1024), "a100-80g": (2048, 256)}


class Point(NamedTuple):
    """A run: what it served, with what, and what was measured."""

    name: str
    group: str
    model: str
    gpu: str
    gpus: int
    prompt: int
    output: int
    one_length: bool  # else only the means are known
    in_flight: int | None  # requests at a time; None: all at once
    requests: int | None  # None: not told
    budget: int
    seats: int
    ttft_s: float
    tpot_s: float
    throughput: float | None  # output tokens a second
    more: tuple[str, ...] = ()  # options that make the scheduler like the server's
    memory_seats: int | None = None  # the pool is that of a server with so many seats

    @property
    def model_words(self) -> tuple[str, ...]:
        return MODELS[self.model]

    @property
    def shipped(self) -> bool:
        return (self.model, self.gpu, self.gpus) in SHIPPED

    @property
    def calibration(self) -> str:
        return "shipped" if self.shipped else "made"

    @property
    def tables(self) -> str:
        return TABLES[self.gpu]


def read_silicon(path: Path) -> tuple[list[Point], Counter[str]]:
    """aiconfigurator's sample: closed loops of one length, TTFT and TPOT in milliseconds."""
    points, left_out = [], Counter[str]()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            why = why_not(row)
            if why:
                left_out[f"silicon_sample: {why}"] += 1
                continue
            model, gpus = SERVED[row["model_path"]], int(row["tp_size"])
            prompt, output, seats = (int(float(row[key])) for key in ("isl", "osl", "batch_size"))
            server = f"{SERVERS[row['backend']]} {row['backend_version']}"
            group = f"{model}, H100 TP{gpus}, {server}"
            name = f"{group}: {prompt} + {output} tokens, {seats} at a time"
            points.append(
                Point(
                    name, group, model, "h100", gpus, prompt, output, True,
                    seats, None, *LIMITS["h100"], float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3,
                    None, SCHEDULERS.get(row["backend"], ()),
                )
            )  # fmt: skip
    return points, left_out


def why_not(row: dict[str, str]) -> str | None:
    """Why a point of the sample cannot be played, if so."""
    if row["model_path"] not in SERVED:
        dense = "Llama" in row["model_path"] or "Qwen3-32B" in row["model_path"]
        return "models of FP8 or FP4" if dense else "models of experts"
    if row["precision"] not in ("", "bf16"):
        return f"in {row['precision'].upper()}; shipped kernels are bf16"
    if row["system"] != "h100_sxm":
        return f"no tables for {row['system']}"
    return None


# With 1,024 seats the memory plan leaves this server 15,968 tokens (5.7 GiB are for the sampler's logits), and it served
# requests of 32,077: it had fewer, or a sampler that needs less. The pool is that of 256 seats then.
MEMORY_SEATS = {("qwen3-32b", "h100"): 256}
FIXED = {  # of the sections with random tokens: tokens of a prompt and of an answer, those asked for
    "random 32K input": (32000, 100), "random 4K input": (4000, 200), "random 2K input": (2000, 100),
    "random 128 input": (128, 4),
}  # fmt: skip
DENSE = {"qwen3-8b/h100-latency.md": "h100", "qwen3-14b/h100.md": "h100", "qwen3-14b/a100.md": "a100-80g",
         "qwen3-32b/h100.md": "h100", "qwen3-32b/a100.md": "a100-80g"}  # fmt: skip


def read_gpustack(path: Path) -> tuple[list[Point], Counter[str]]:
    """Runs of `vllm bench serve` that GPUStack published: those of vLLM with its defaults, in bf16, on one GPU."""
    points, left_out, seen = [], Counter[str](), set()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            figures = (row["file"], row["Benchmark duration (s)"], row["Mean TTFT (ms)"])
            why = why_not_published(row) or ("the same run once more" if figures in seen else None)
            if why:
                left_out[f"published_gpustack: {why}"] += 1
                continue
            seen.add(figures)
            points.append(published(row))
    return points, left_out


def why_not_published(row: dict[str, str]) -> str | None:
    if row["file"] not in DENSE:
        return "models of experts, hybrid models, other devices"
    if "vllm serve" not in row["serve"]:
        return "SGLang and TensorRT-LLM, whose limits are not told"
    if row["serve"].split()[2].endswith(("-FP8", "-AWQ")):
        return "FP8 and AWQ"
    if "max-model-len" not in row["serve"] and len(row["serve"].split()) > 3:
        return "vLLM with other limits, or speculative decoding"
    return None


def published(row: dict[str, str]) -> Point:
    model, _, _ = row["file"].partition("/")
    gpu, section = DENSE[row["file"]], row["section"]
    count = int(float(row["Successful requests"]))
    one_length = section in FIXED
    means = tuple(round(float(row[f"Total {kind} tokens"]) / count) for kind in ("input", "generated"))
    prompt, output = means if not one_length else (means[0], max(FIXED[section][1], means[1]))
    bound = row["Maximum request concurrency"]
    in_flight = int(float(bound)) if bound else None
    budget, seats = LIMITS[gpu]
    what = section if one_length else "ShareGPT"
    group = f"{model}, {gpu.upper()}, vLLM, {'all at once' if in_flight is None else 'few at a time'}"
    name = f"{group}: {what}{f', {in_flight} at a time' if in_flight else ''}"
    return Point(
        name, group, model, gpu, 1, prompt, output, one_length,
        in_flight, count, budget, seats, float(row["Mean TTFT (ms)"]) / 1e3, float(row["Mean TPOT (ms)"]) / 1e3,
        float(row["Output token throughput (tok/s)"]), SYNCHRONOUS, MEMORY_SEATS.get((model, gpu)),
    )  # fmt: skip
