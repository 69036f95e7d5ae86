"""Speed of every shipped policy: roomy, starved and overloaded, beside `fcfs` in the same run.

    python bench/policies.py [--requests 10000] [--runs 3] [--policies vtc mlfq ...] [--system textbook]

Requests of 500-1500 prompt and 100-400 output tokens of 27 users , 128 seats, blocks of 16, predictor=oracle:

    roomy       Poisson 5/s, more blocks than are needed
    starved     Poisson 8/s, 4,000 blocks: preemption in about one plan of ten
    queue of 10 / queue of 10,000
                closed loops of 138 and 10,128 users: so many wait all the time, until the last have arrived

Requests a second are of the loop alone, CPU time of this process (best of the runs). "A plan": CPU time over the number of
plans that were made in the queue of 10 (fast-forwarded steps are none). The last column: CPU time a request in the queue of
10,000 over that in the queue of 10: 1 is a cost that does not depend on how many wait.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import policies
from bench.loop import LINEAR, WORKLOAD, machine
from twin.cli.compose import compose
from twin.cli.job import build

COMMON = (*WORKLOAD, *LINEAR, "predictor=oracle", "trace.users=zipf(1.1,n=27)")
DEADLINES = "trace.deadline_s=exponential(60)"
SETTINGS: dict[str, tuple[str, ...]] = {
    "roomy": ("trace.arrivals=poisson(5)", DEADLINES),
    "starved": ("trace.arrivals=poisson(8)", DEADLINES, "cache.num_gpu_blocks=4000"),
    "queue of 10": ("trace.arrivals=closed(138)",),
    "queue of 10,000": ("trace.arrivals=closed(10128)",),
}
HEADER = (
    "| policy | roomy 1/s | of fcfs | starved 1/s | preemptions | queue of 10 1/s | µs a plan | queue of 10,000 1/s | × |"
)


def shipped() -> list[str]:
    """The names of all policies of the package, fcfs first."""
    names = sorted(path.stem for path in Path(policies.__file__).parent.glob("[!_]*.py"))
    return ["fcfs", *(name for name in names if name != "fcfs")]


class Timing:
    """One setting, timed: best CPU seconds of the loop, plans, preemptions."""

    def __init__(self, options: Sequence[str], runs: int) -> None:
        self.cpu_s = float("inf")
        for _ in range(runs):
            simulation = build(compose(list(options)), "").simulation
            started_s = time.process_time()
            outcome = simulation.run()
            self.cpu_s = min(self.cpu_s, time.process_time() - started_s)
        self.requests = len(outcome.requests["status"])
        self.plans = simulation.scheduler.state.plans
        self.preemptions = outcome.counters["preemptions"]

    @property
    def rate(self) -> float:
        return self.requests / self.cpu_s


def row(policy: str, requests: int, runs: int, system: str, reference: float | None) -> tuple[str, float]:
    """A line of the table, and the roomy rate."""
    took = {}
    for setting, options in SETTINGS.items():
        number = requests if setting != "queue of 10,000" else requests + 10_000
        words = [*COMMON, f"system={system}", *options, f"policy={policy}", f"trace.num_requests={number}"]
        took[setting] = Timing(words, runs)
    roomy, starved, few, many = took.values()
    figures = [
        f"{roomy.rate:,.0f}", f"{roomy.rate / (reference or roomy.rate):.2f}", f"{starved.rate:,.0f}",
        f"{starved.preemptions:,}", f"{few.rate:,.0f}", f"{few.cpu_s / few.plans * 1e6:.0f}", f"{many.rate:,.0f}",
        f"{few.rate / many.rate:.1f}",
    ]  # fmt: skip
    return f"| {policy} | " + " | ".join(figures) + " |", roomy.rate


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=shipped(), metavar="POLICY")
    parser.add_argument("--system", default="textbook")
    chosen = parser.parse_args(arguments)
    print(
        f"{machine()}\n{chosen.requests:,} requests, best of {chosen.runs}, system={chosen.system}\n\n{HEADER}\n|---|"
        + "--:|" * 8
    )
    reference = None
    for policy in chosen.policies:
        line, rate = row(policy, chosen.requests, chosen.runs, chosen.system, reference)
        reference = reference or rate
        print(line, flush=True)


if __name__ == "__main__":
    main()
