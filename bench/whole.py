"""Speed of a whole run, from the start of the process to its last file: where its time goes, and how much memory it takes.

    python bench/whole.py [--cases "plain 10k" "plain 100k" "chat 1M"] [--systems textbook vllm] [--runs 3] [--pictures]

Each timing is `python -m twin run` in a process of its own, which leaves summary.json, requests.parquet, steps.parquet and
config.yaml (with --pictures figures and report too):

    start-up  until it prints its first lines: everything imported, options composed, the trace made, the simulation built
    loop      `wall_s` of summary.json: under simpy, from the first arrival to the last token
    rest      columns, tables, summary, files, what is printed, the end of the process
    whole     the three together, as the parent process sees it
    CPU       what the process itself computed of that, all threads: on a busy machine it says more than the clock
    peak      the largest resident set of the process, MiB

The run with the shortest whole is shown: on a machine that does other things too it is the nearest to the truth. `step by
step` is a run of the same options with simulate.step_by_step=true, whose files are the same; the ratio is that of the loops.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PLAIN = (
    "trace=synthetic", "trace.prompt_tokens=uniform(500,1500)", "trace.output_tokens=uniform(100,400)",
    "trace.arrivals=poisson(5)", "scheduler.max_num_seqs=128", "cache.block_size=16",
)  # fmt: skip
CHAT_RATE = 17  # requests/s: 80 % of what one replica finishes when it is overloaded, 21.2
CHAT = ("trace=chat", f"trace.rate={CHAT_RATE}")
CASES: dict[str, tuple[int, tuple[str, ...]]] = {  # requests, options
    "plain 1k": (1_000, PLAIN),
    "plain 10k": (10_000, PLAIN),
    "plain 100k": (100_000, PLAIN),
    "chat 10k": (10_000, CHAT),
    "chat 100k": (100_000, CHAT),
    "chat 1M": (1_000_000, CHAT),
}
MOST_STEP_BY_STEP = 100_000  # requests; a longer run is not repeated step by step
COLUMNS = (
    "| case | requests | system | start-up s | loop s | rest s | whole s | CPU s | peak MiB | step by step, × the loop |"
)


class Timing(NamedTuple):
    """One run of the command, seconds and MiB."""

    start_up_s: float
    loop_s: float
    whole_s: float
    cpu_s: float
    peak_mib: float

    @property
    def rest_s(self) -> float:
        return self.whole_s - self.start_up_s - self.loop_s


def timing(options: Sequence[str]) -> Timing:
    """Runs the command in a process of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "twin", "run", *options, f"hydra.run.dir={folder}/run"]
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=os.environ | {"PYTHONPATH": path}
        )
        assert process.stdout is not None
        process.stdout.readline()
        start_up_s = time.perf_counter() - began
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        whole_s = time.perf_counter() - began
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}\n{errors.read().decode()}")
        summary = json.loads(Path(folder, "run", "summary.json").read_text())
    return Timing(start_up_s, summary["wall_s"], whole_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def best(options: Sequence[str], runs: int) -> Timing:
    """The run with the shortest whole."""
    return min((timing(options) for _ in range(runs)), key=lambda each: each.whole_s)


def rows(cases: Sequence[str], systems: Sequence[str], runs: int, pictures: bool) -> Iterator[str]:
    """A row of the table a case and system."""
    drawn = str(pictures).lower()
    for case in cases:
        requests, options = CASES[case]
        for system in systems:
            words = [f"system={system}", "policy=fcfs", *options, f"trace.num_requests={requests}"]
            words += [f"output.figures={drawn}", f"output.report={drawn}"]
            found = best(words, runs)
            ratio = "–"
            if requests <= MOST_STEP_BY_STEP:
                ratio = f"{timing([*words, 'simulate.step_by_step=true']).loop_s / found.loop_s:.1f}"
            seconds = (found.start_up_s, found.loop_s, found.rest_s, found.whole_s, found.cpu_s)
            cells = (case, f"{requests:,}", system, *(f"{value:.2f}" for value in seconds), f"{found.peak_mib:,.0f}", ratio)
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["plain 10k", "plain 100k", "chat 1M"])
    parser.add_argument("--systems", nargs="+", default=["textbook", "vllm"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pictures", action="store_true", help="figures and report too")
    given = parser.parse_args()
    print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, best of {given.runs} runs\n")
    print(COLUMNS)
    print("|---|--:|---|" + "--:|" * (COLUMNS.count("|") - 4))
    for row in rows(given.cases, given.systems, given.runs, given.pictures):
        print(row, flush=True)


if __name__ == "__main__":
    main()
