"""Speed of every shipped policy: roomy, starved and overloaded, beside `fcfs` in the same minute.

    python -m bench.policies [--requests 2000] [--runs 3] [--policies vtc mlfq ...] [--system textbook]

Requests of 500-1500 prompt and 100-400 output tokens of 27 users, 128 seats, blocks of 16, max_model_len=2048,
predictor=oracle:

    roomy       Poisson 5/s, more blocks than are needed
    starved     Poisson 8/s, 4,000 blocks: preemption in about one plan of ten
    queue       a closed loop of 138 users: ten wait all the time, until the last have arrived

Figures are CPU time of this process in the loop alone, the best of the runs; a policy and `fcfs` run in turn, so that both
see the same disturbances, and "of fcfs" is the quotient of their speeds. "µs a step" is CPU time a step in the queue, under
the policy and under `fcfs` (steps passed in a stretch counted singly). "×" is CPU time a *plan* with 10,000 waiting over
that with ten (closed loops of 10,128 and of 138 users): 1 is a cost that does not depend on how many wait. It is told by
plan, as a policy may preempt, and so plan, more often where more wait.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import policies
from bench.loop import LINEAR, WORKLOAD, machine
from twin.cli.compose import compose
from twin.cli.job import build

COMMON = (*WORKLOAD, *LINEAR, "predictor=oracle", "trace.users=zipf(1.1,n=27)", "model.max_model_len=2048")
OWN = {"orca": ("policy.reserve=oracle",), "rpm": ("policy.limit=1000",)}  # else they hold back what could run
DEADLINES = "trace.deadline_s=exponential(60)"
ROOMY = ("trace.arrivals=poisson(5)", DEADLINES)
STARVED = ("trace.arrivals=poisson(8)", DEADLINES, "cache.num_gpu_blocks=4000")
QUEUE_OF_10 = ("trace.arrivals=closed(138)",)
QUEUE_OF_10_000 = ("trace.arrivals=closed(10128)",)
COLUMNS = (
    "policy", "roomy 1/s", "of fcfs", "queue 1/s", "of fcfs", "starved 1/s", "of fcfs", "preemptions", "µs a step", "fcfs",
    "10,000 waiting 1/s", "×",
)  # fmt: skip


class Timing(NamedTuple):
    """One run of the loop."""

    cpu_s: float
    requests: int
    steps: int
    plans: int
    preemptions: int

    @property
    def rate(self) -> float:
        return self.requests / self.cpu_s


def timing(options: Sequence[str]) -> Timing:
    """Runs it once, in this process."""
    simulation = build(compose(list(options)), "").simulation
    started_s = time.process_time()
    outcome = simulation.run()
    cpu_s = time.process_time() - started_s
    plans, counters = simulation.scheduler.state.plans, outcome.counters
    return Timing(cpu_s, len(outcome.requests["status"]), counters["steps"], plans, counters["preemptions"])


def row(policy: str, common: Sequence[str], requests: int, runs: int) -> str:
    """A line of the table."""

    def run(name: str, setting: Sequence[str], more: int = 0) -> Timing:
        own = OWN.get(name, ())
        return timing([*common, *setting, *own, f"policy={name}", f"trace.num_requests={requests + more}"])

    def beside_fcfs(setting: Sequence[str]) -> tuple[Timing, Timing]:
        pairs = [(run("fcfs", setting), run(policy, setting)) for _ in range(runs)]
        fcfs, own = (min(column) for column in zip(*pairs, strict=True))
        return fcfs, own

    def speed(fcfs: Timing, own: Timing) -> list[str]:
        return [f"{own.rate:,.0f}", f"{own.rate / fcfs.rate:.2f}"]

    queued, starved = beside_fcfs(QUEUE_OF_10), beside_fcfs(STARVED)
    fcfs, own = queued
    many = run(policy, QUEUE_OF_10_000, more=10_000)
    figures = [
        *speed(*beside_fcfs(ROOMY)), *speed(*queued), *speed(*starved), f"{starved[1].preemptions:,}",
        f"{own.cpu_s / own.steps * 1e6:.0f}", f"{fcfs.cpu_s / fcfs.steps * 1e6:.0f}", f"{many.rate:,.0f}",
        f"{many.cpu_s / many.plans / own.cpu_s * own.plans:.1f}",
    ]  # fmt: skip
    return f"| {policy} | " + " | ".join(figures) + " |"


def shipped() -> list[str]:
    """The names of all policies of the package, fcfs first."""
    names = sorted(path.stem for path in Path(policies.__file__).parent.glob("[!_]*.py"))
    return ["fcfs", *(name for name in names if name != "fcfs")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=shipped(), metavar="POLICY")
    parser.add_argument("--system", default="textbook")
    chosen = parser.parse_args(arguments)
    print(f"{machine()}\n{chosen.requests:,} requests, best of {chosen.runs}, system={chosen.system}\n")
    print("| " + " | ".join(COLUMNS) + " |\n|---|" + "--:|" * (len(COLUMNS) - 1))
    timing([*COMMON, *ROOMY, "trace.num_requests=1000"])  # imports and caches are nobody's cost
    for policy in chosen.policies:
        print(row(policy, [*COMMON, f"system={chosen.system}"], chosen.requests, chosen.runs), flush=True)


if __name__ == "__main__":
    main()
