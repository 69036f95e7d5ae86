"""A live comparison from its first run to its last: each is a recorded run when it has been played."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.ground_truth.live.interpreter import Interpreter
from engine.ground_truth.live.plan import Plan, engine_arguments, huggingface_config, requests_of, scheduler_of, settings
from engine.ground_truth.live.process import VllmProcess
from engine.ground_truth.live.scheduler import CLOCK, CORES, PLAIN, SCHEDULER, STEP_LOG
from engine.ground_truth.measured import measured
from engine.ground_truth.reading import read_recordings
from engine.validate.capacity import capacity
from traces.trace import Trace
from traces.transforms.common import moved

GIB = 2**30
BURST = "burst"
WARM_UP = 12  # requests that nobody looks at: libraries are still being loaded
QUIET = {"VLLM_LOGGING_LEVEL": "WARNING", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class Played(NamedTuple):
    """What came of it."""

    names: list[str]  # of the runs, in order
    requests_per_s: float  # the capacity that the burst has shown


def play(plan: Plan, interpreter: Interpreter, place: Path, tell: Callable[[str], None]) -> Played:
    """The burst, then each load `repeats` times, all loads in each round; recorded in folders of `place`/recorded.

    Raises VllmFailed.
    """
    options, given = plan.config["vllm"], plan.config["validate"]
    process = VllmProcess(
        interpreter.python, {"engine": engine_arguments(plan, _model(plan, place))}, place / "job.json",
        _environment(plan, interpreter, place), place / "vllm.log",
    )  # fmt: skip
    names: list[str] = []

    def run(name: str, trace: Trace, about: dict[str, Any], keep: bool = True) -> None:
        tell(f"vLLM plays {name}")
        file = place / "requests.json"
        file.write_text(json.dumps(requests_of(plan, trace)), encoding="utf-8")
        to = str(place / "recorded" / name) if keep else None
        order = {"play": name, "requests": str(file), "to": to, "settings": {"setting": name} | settings(plan) | about}
        process.play(order, options["run_timeout_s"])
        if keep:
            names.append(name)

    with process:
        tell("vLLM starts")
        process.wait_ready(options["start_timeout_s"])
        burst = _at_once(plan.traces[0])
        run("warm-up", _first(burst, WARM_UP), {}, keep=False)
        run(BURST, burst, {"rate_rps": None})
        requests_per_s = _capacity(place / "recorded" / BURST)
        for repeat in range(given["repeats"]):
            for load, trace in zip(given["loads"], plan.traces[1:], strict=True):
                rate = load * requests_per_s
                about = {"load": load, "rate_rps": rate, "capacity_rps": requests_per_s}
                run(f"load{load:g}{f'_{repeat + 1}' if repeat else ''}", trace.rescaled(rate), about)
    for leftover in (place / "requests.json", place / "job.json"):
        leftover.unlink()
    return Played(names, requests_per_s)


def pinned(options: dict[str, Any]) -> list[int] | None:
    """The cores of vLLM's engine: with one thread the last, since interrupts prefer the first."""
    if options["cores"] is not None or options["threads"] > 1 or not hasattr(os, "sched_getaffinity"):
        cores: list[int] | None = options["cores"]
        return cores
    return [max(os.sched_getaffinity(0))]


def _at_once(trace: Trace) -> Trace:
    return moved(trace, np.zeros(len(trace)))


def _first(trace: Trace, count: int) -> Trace:
    return trace.take(np.arange(min(count, len(trace))))


def _capacity(folder: Path) -> float:
    (recording,) = read_recordings([folder])
    return capacity(measured(recording)).requests_per_s


def _model(plan: Plan, place: Path) -> str:
    """Where vLLM finds the model: a folder with a configuration, whose weights it makes up, or the user's."""
    if (given := plan.config["vllm"]["model"]) is not None:
        return str(given)
    folder = place / "model"
    folder.mkdir(exist_ok=True)
    content = huggingface_config(plan.config, plan.job.setup.limits.max_model_len)
    (folder / "config.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return str(folder)


def _environment(plan: Plan, interpreter: Interpreter, place: Path) -> dict[str, str]:
    options, model, limits = plan.config["vllm"], plan.config["model"], plan.job.setup.limits
    bytes_a_token = 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * (4 if model["dtype"] == "fp32" else 2)
    kv_gib = math.ceil(bytes_a_token * limits.block_size * (limits.num_blocks + 1) / GIB)
    environment = interpreter.environment | {name: interpreter.environment.get(name, QUIET[name]) for name in QUIET}
    environment |= {
        "OMP_NUM_THREADS": str(options["threads"]),
        "VLLM_CPU_KVCACHE_SPACE": str(kv_gib),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if options["threads"] == 1 else "1",  # the model in the engine's own process
        SCHEDULER: scheduler_of(plan.config) or PLAIN,
        STEP_LOG: str(place / "steps.json"),
        CLOCK: options["clock"],
    }
    if options["cores"] is not None:
        environment[CORES] = ",".join(map(str, options["cores"]))
        environment["VLLM_CPU_OMP_THREADS_BIND"] = environment[CORES]
    return environment
