"""What a request costs as a run grows: longer, with more running, with more waiting, with longer prompts.

    python bench/flat.py [--most 1000000] [--runs 2]

CPU time of the loop in this process (compiled where `python -m twin compile` has been given), synchronous, without prefix
caching, under fcfs, the best of the runs. In each part all but one number stays; `ratio` is to the part's first row.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from loop import LINEAR, machine  # noqa: E402

from twin import compiled  # noqa: E402
from twin.cli.compose import compose  # noqa: E402
from twin.cli.job import build  # noqa: E402

BASE = (
    "policy=fcfs", "trace=synthetic", "system=textbook", *LINEAR, "cache.num_gpu_blocks=200000", "cache.block_size=16",
)  # fmt: skip
MIXED = ("trace.prompt_tokens=uniform(500,1500)", "trace.output_tokens=uniform(100,400)")
SHORT = ("trace.prompt_tokens=uniform(50,150)", "trace.output_tokens=uniform(100,300)")
HEAD = "| part | value | requests | steps | us a request | us an event | ratio |\n|---|--:|--:|--:|--:|--:|--:|"


def measure(options: list[str], runs: int) -> tuple[float, int, int]:
    """CPU seconds of the loop, its steps, and the events that it was made of (rows of steps.parquet)."""
    best_s, steps, rows = float("inf"), 0, 0
    for _ in range(runs):
        simulation = build(compose(options), "").simulation
        started_s = time.process_time()
        outcome = simulation.run()
        best_s = min(best_s, time.process_time() - started_s)
        steps, rows = outcome.counters["steps"], len(outcome.steps["repeat"])
    return best_s, steps, rows


def parts(most: int) -> list[tuple[str, list[tuple[int, int, list[str]]]]]:
    """Name, and a row each: the number that grows, requests, options."""
    lengths = [count for count in (10_000, 100_000, 1_000_000) if count <= most]
    longer = [(n, n, [*MIXED, "scheduler.max_num_seqs=128", "trace.arrivals=poisson(5)"]) for n in lengths]
    running = [
        (seats, max(2_000, 20 * seats), [*SHORT, f"scheduler.max_num_seqs={seats}", "trace.arrivals=burst()"])
        for seats in (8, 32, 128, 512, 1024)
    ]
    waiting = [(n, n + 1_000, [*SHORT, "scheduler.max_num_seqs=32", "trace.arrivals=burst()"]) for n in (10, 1_000, 100_000)]
    prompts = [
        (tokens, 1_000, [
            f"trace.prompt_tokens=constant({tokens})", "trace.output_tokens=constant(50)", "trace.arrivals=poisson(0.5)",
            "model.max_model_len=120000", "scheduler.max_num_seqs=128",
        ])
        for tokens in (100, 1_000, 10_000, 100_000)
    ]  # fmt: skip
    return [("requests", longer), ("running", running), ("waiting", waiting), ("prompt tokens", prompts)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="requests of the longest run")
    parser.add_argument("--runs", type=int, default=2)
    chosen = parser.parse_args(arguments)
    print(f"{machine()}, core {'compiled' if compiled.in_use() else 'as Python'}\n\n{HEAD}")
    for name, rows in parts(chosen.most):
        first_us = 0.0
        for value, requests, options in rows:
            seconds, steps, events = measure([*BASE, *options, f"trace.num_requests={requests}"], chosen.runs)
            each_us = 1e6 * seconds / requests
            first_us = first_us or each_us
            print(f"| {name} | {value:,} | {requests:,} | {steps:,} | {each_us:.1f} | {1e6 * seconds / events:.1f}"
                  f" | {each_us / first_us:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
