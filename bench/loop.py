"""Speed of the simulator's loop: requests a second, fast-forward beside step by step, and the memory that a request needs.

    python -m twin compile
    python bench/loop.py [--requests 10000] [--runs 5] [--rates 2 5 8] [--settings "textbook, linear" textbook vllm ...]

Fast-forward as Python and, where the core has been compiled, as machine code; step by step as Python, with the same results.

Requests of 500-1500 prompt and 100-400 output tokens, Poisson, 128 seats, one replica, blocks of 16. Each timing is a
run of `python -m twin run` in a process of its own; what it took is `wall_s` of its summary.json: the loop under simpy, from
the first arrival to the last token, tables included, without imports, reading and writing. Best and median of the runs are
printed: on a machine that does other things too the best is the nearest to the truth. Ratios: fast-forward over step by
step, compiled over Python.

Memory: `tracemalloc` from before the trace is made to the end of the run, its peak less the bytes of the output tables, a
finished request, in a process of its own after a small run (so that imports do not count).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = (
    "policy=fcfs", "trace=synthetic", "trace.prompt_tokens=uniform(500,1500)", "trace.output_tokens=uniform(100,400)",
    "scheduler.max_num_seqs=128", "cache.block_size=16", "output.figures=false", "output.report=false",
)  # fmt: skip
LINEAR = (
    "latency=linear", "latency.base_s=0.008", "latency.per_prefill_token_s=60e-6", "latency.per_decode_token_s=50e-6",
    "latency.per_context_token_s=1e-7",
)  # fmt: skip
SETTINGS: dict[str, tuple[str, ...]] = {
    "textbook, linear": ("system=textbook", *LINEAR),
    "textbook": ("system=textbook",),
    "vllm": ("system=vllm",),
    "asynchronous": ("system=textbook", *LINEAR, "scheduler.async_scheduling=true"),
    "prefix caching": ("system=textbook", *LINEAR, "cache.enable_prefix_caching=true"),
    "chunks of 512": ("system=textbook", *LINEAR, "scheduler.max_num_batched_tokens=512"),
    "1,500 blocks": ("system=textbook", *LINEAR, "cache.num_gpu_blocks=1500"),
    "1,500 blocks, swap": (
        "system=textbook", *LINEAR, "cache.num_gpu_blocks=1500", "cache.num_cpu_blocks=4000", "policy.preemption_mode=swap",
    ),
}  # fmt: skip
RATES = (2, 5, 8)  # requests/s
COLUMNS = "| setting | rate | steps | compiled 1/s | best 1/s | median 1/s | step by step 1/s | ratios | bytes a request |"


class Timing(NamedTuple):
    """One run of the command."""

    wall_s: float
    steps: int


def words(setting: str, rate: float, requests: int) -> list[str]:
    """The options of a run."""
    return [*WORKLOAD, *SETTINGS[setting], f"trace.arrivals=poisson({rate})", f"trace.num_requests={requests}"]


def timing(options: list[str], compiled: bool = False) -> Timing:
    """Runs the command in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "twin", "run", *options, f"hydra.run.dir={folder}"]
        _of_process(command, TWIN_COMPILED="1" if compiled else "0")
        summary = json.loads(Path(folder, "summary.json").read_text())
    return Timing(summary["wall_s"], summary["steps"])


def _of_process(command: list[str], **variables: str) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path} | variables
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def bytes_a_request(options: list[str]) -> float:
    """In this process: what a run needs at its peak beside its output tables, a finished request."""
    from twin.cli.compose import compose
    from twin.cli.job import build

    build(compose([*options, "trace.num_requests=100"]), "").simulation.run()
    composed = compose(options)
    tracemalloc.start()
    done = build(composed, "").simulation.run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    finished = done.requests["status"].count("finished")
    tables = [*done.requests.values(), *done.steps.values(), done.itl_s, done.itl_count, done.itl_at_s]
    return (peak - sum(map(_size, [*tables, done.block_steps, done.token_steps, done.peak_blocks]))) / finished


def _size(column: Any) -> int:
    if not isinstance(column, list):
        return int(column.nbytes)
    return sys.getsizeof(column) + sum({id(text): sys.getsizeof(text) for text in column}.values())


def machine() -> str:
    """The processor and the Python that the figures belong to."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.exists() else [platform.processor() or "unknown processor"]  # fmt: skip
    return f"{names[0]}, {len(names)} cores seen, one used; Python {platform.python_version()}"


def table(requests: int, runs: int, rates: Sequence[float], settings: Sequence[str]) -> None:
    """Prints a row a setting and rate."""
    print(f"{machine()}\n{requests:,} requests, best and median of {runs}\n\n{COLUMNS}\n|---|" + "--:|" * 8)
    has_compiled = (
        _of_process([sys.executable, "-c", "import twin.compiled; print(twin.compiled.in_use())"]).strip() == "True"
    )
    for setting in settings:
        for rate in rates:
            options = words(setting, rate, requests)
            forward, by_step, compiled = [], [], []
            for _ in range(runs):  # in turn, so that all see the same disturbances
                if has_compiled:
                    compiled.append(timing(options, compiled=True))
                forward.append(timing(options))
                by_step.append(timing([*options, "simulate.step_by_step=true"]))
            memory = float(_of_process([sys.executable, __file__, "--memory", *options]))
            best_s, slow_s = min(forward).wall_s, min(by_step).wall_s
            ratios, compiled_rate = [f"{slow_s / best_s:.1f}"], "-"
            if has_compiled:
                fast_s = min(compiled).wall_s
                ratios, compiled_rate = [*ratios, f"{best_s / fast_s:.1f}"], f"{requests / fast_s:,.0f}"
            figures = [
                f"{forward[0].steps:,}", compiled_rate,
                f"{requests / best_s:,.0f}",
                f"{requests / median(each.wall_s for each in forward):,.0f}", f"{requests / slow_s:,.0f}",
                ", ".join(ratios), f"{memory:,.0f}",
            ]  # fmt: skip
            print(f"| {setting} | {rate} | " + " | ".join(figures) + " |", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--memory", nargs="+", metavar="OPTION", help="only the memory of one run, in this process")
    chosen = parser.parse_args(arguments)
    if chosen.memory:
        print(bytes_a_request(chosen.memory))
    else:
        table(chosen.requests, chosen.runs, chosen.rates, chosen.settings)


if __name__ == "__main__":
    main(sys.argv[1:])
