"""`twin run seeds=N`: the same run for several seeds, and what their summaries say together.

The k-th run has the seed `seed + k` and the folder `seed=...` below the run folder. Every draw of a run depends on its
seed and the request alone, so two policies see the same N traces (common random numbers). The summary over all of them
is again flat: each number is the mean of the runs, beside it KEY_ci95 how far the 95 % interval reaches to either side
(Student's t); whatever is no number in all the runs is left out.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from twin.cli import signals, streams
from twin.cli.compose import Composed
from twin.cli.errors import UserError
from twin.cli.folder import claim, release, writing
from twin.cli.intervals import mean_and_half_width
from twin.cli.job import Backend, Job, build
from twin.cli.options import check_options, is_number
from twin.cli.run import DONE, carry_out

LATENCIES = tuple(f"{metric}_s_{kind}" for metric in ("ttft", "tpot", "e2e") for kind in ("mean", "p99"))
OTHERS = ("request_throughput", "output_token_throughput", "slo_attainment", "goodput", "kv_usage_mean", "preemptions")


def run_seeds(composed: Composed, command: str, backend: Backend | None = None) -> int:
    """All runs, one after the other; stops at the first that fails or is interrupted. Returns the exit status."""
    check_options(composed.values)
    # all mistakes come to light before anything is written
    job = build(with_seed(composed, composed.values["seed"]), command, backend)
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    with streams.work_first():
        print("\n".join(job.lines), flush=True)
        return _run_all(composed, command, job, folder)


def _run_all(composed: Composed, command: str, job: Job, folder: Path) -> int:
    first, count = composed.values["seed"], composed.values["seeds"]
    summaries: list[dict[str, Any]] = []
    status, message = DONE, ""
    for seed in range(first, first + count):
        try:
            job = job if seed == first else build(with_seed(composed, seed), command, job.backend)
            outcome, summary = carry_out(job, claim(folder / f"seed={seed}", given=True))
            status, message = outcome.status, outcome.message
        except KeyboardInterrupt:
            status, message = signals.exit_status(), signals.in_words()
            break
        if status == DONE or not summaries:  # half a run says nothing beside whole ones
            summaries.append(summary)
        print(f"seed {seed}: {summary['finished']:,} of {summary['requests']:,} requests finished", flush=True)
        if status != DONE:
            break
    if not summaries:
        release([folder])
        raise KeyboardInterrupt
    with signals.held():
        together = combined(summaries, count)
        write_together(folder, together)
        _show(together)
        print(f"written to {folder}", flush=True)
        if message:
            among = f"the summary is that of {len(summaries)} of {count} seeds"
            streams.complain(f"{job.backend.command}: seed {seed}: {message}; {among}")
    return status


def combined(summaries: list[dict[str, Any]], wanted: int) -> dict[str, Any]:
    """One flat summary of several; a single one has no intervals. `saturated` where most of those that can tell are."""
    together: dict[str, Any] = {
        "complete": len(summaries) == wanted and all(summary["complete"] for summary in summaries),
        "seeds": len(summaries),
    }
    for key in summaries[0]:
        values = [summary[key] for summary in summaries]
        if not all(is_number(value) for value in values):
            continue
        together[key] = sum(values) / len(values)
        if len(values) > 1:
            together[key], together[f"{key}_ci95"] = mean_and_half_width([float(value) for value in values])
    told = [summary["saturated"] for summary in summaries if summary.get("saturated") is not None]
    together["saturated"] = 2 * sum(told) > len(told) if told else None
    return together


def with_seed(composed: Composed, seed: int) -> Composed:
    """The run of one of the seeds."""
    values = deepcopy(composed.values)
    return replace(composed, values=values | {"seed": seed, "seeds": 1})


def write_together(folder: Path, together: dict[str, Any]) -> None:
    """summary.json over all seeds. Raises UserError when it cannot be written."""
    try:
        with writing(folder) as files:
            files.summary(together)
    except UserError:
        release([folder])
        raise


def rows_of(together: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Key, mean and interval of what is shown."""
    from twin.results.presentation import number

    for key in (*LATENCIES, *OTHERS):
        if key in together:
            half = together.get(f"{key}_ci95")
            yield key, number(together[key]), "" if half is None else f"± {number(half)}"


def _show(together: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(f"mean of {together['seeds']} seeds")
    table.add_column("", justify="right")
    table.add_column("95 %")
    for row in rows_of(together):
        table.add_row(*row)
    Console(highlight=False).print(table)
