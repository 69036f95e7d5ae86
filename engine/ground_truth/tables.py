"""What a study found, as tables: for the terminal, the page, the CSV files, the JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from engine.ground_truth.study import METRICS, SATURATED, TOO_FEW, Case, Study, repeated
from engine.validate.comparison import OUTSIDE, UNDEFINED, WITHIN_SPREAD, Row
from engine.validate.csv_text import csv_text
from engine.validate.steps import StepErrors

MARKS = {OUTSIDE: " !", WITHIN_SPREAD: " ~"}
LEGEND = (
    "error of the simulator ± vLLM's own spread, percent; ! outside its tolerance, ~ within that spread alone, "
    "( ) shown, not judged"
)
LOCKSTEP_HEAD = ["lockstep", "requests", "steps", "identical", "preemptions", "decisions"]
STEP_HEAD = ["step times", "steps", "MAPE %", "decode %", "prefill %", "mixed %", "beyond %", "alike %", "fitted to"]
STEP_LEGEND = (
    "decode, prefill, mixed: all seconds foretold over all measured, less 1; beyond: steps beyond the range that was fitted",
    "alike: how much longer decode steps of the same composition took in the predicted run than in those fitted to ± its",
    "standard error: that is the machine, which no step model knows",
)
ERRORS = ("run", "fitted_to", "load", *Row._fields)
STEP_ERRORS = ("run", "fitted_to", *StepErrors._fields)
WORDS = ("decisions", "fitted to")  # columns that are not of numbers
SPREADS = ("runs", "metric", "spread")


def lockstep_rows(study: Study) -> list[list[str]]:
    rows = []
    for run in study.runs:
        if run.name in study.locked:
            locked = study.locked[run.name]
            preempted = sum(len(step.preempted) for step in run.steps)
            verdict = "identical" if locked.right else "DIFFER"
            rows.append(
                [run.name, f"{len(run.requests):,}", f"{locked.steps:,}", f"{locked.identical:,}", f"{preempted:,}", verdict]
            )
    return rows


def free_table(study: Study) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row a figure, a column a prediction; last what vLLM's repeated runs differ by."""
    spreads = study.spreads()
    head = ["free-running", *(case.name for case in study.cases)]
    head += [f"vLLM's own: {repeated(spread.runs)}" for spread in spreads]
    rows = [["load", *(load_words(case) for case in study.cases), *("" for _ in spreads)]]
    for place, metric in enumerate(METRICS):
        cells = [cell_text(case.rows[place]) for case in study.cases]
        for spread in spreads:
            share = spread.of[metric]
            cells.append("-" if share is None else f"± {100 * share:.1f}  ")
        rows.append([metric, *cells])
    return head, rows


def load_words(case: Case) -> str:
    return "burst  " if math.isinf(case.load) else f"{case.load:.2f}  "


def cell_text(row: Row) -> str:
    """`+1.2 ± 0.4`, in percent; in brackets what is not judged."""
    if row.verdict == UNDEFINED:
        return "-  "
    error = "none" if row.error is None else f"{100 * row.error:+.1f}"
    spread = "" if row.spread is None else f" ± {100 * row.spread:.1f}"
    if row.verdict in (SATURATED, TOO_FEW):
        return f"({error}{spread}) "
    return f"{error}{spread}{MARKS.get(row.verdict, '  ')}"


def step_rows(study: Study) -> list[list[str]]:
    """A row a prediction, and one of all."""
    rows = []
    for case in study.cases:
        alike = "-" if case.alike is None else f"{100 * case.alike.slower:+.1f} ± {100 * case.alike.error:.1f}"
        fitted = ", ".join(case.step_model.fitted_to)
        rows.append([case.name, *_of_regions(case.step_errors), f"{100 * case.beyond_range:.0f}", alike, fitted])
    if len(study.cases) > 1:
        rows.append(["all", *_of_regions(study.step_errors), "", "", ""])
    return rows


def _of_regions(errors: Sequence[StepErrors]) -> list[str]:
    by_region = {each.region: each for each in errors}
    biases = [f"{100 * by_region[name].bias:+.1f}" if name in by_region else "-" for name in ("decode", "prefill", "mixed")]
    return [f"{by_region['all'].steps:,}", f"{100 * by_region['all'].mape:.2f}", *biases]


def as_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In columns, as wide as they need to be; the first and those of words to the left."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [
            cell.ljust(width) if name in WORDS else cell.rjust(width)
            for name, cell, width in zip(head[1:], row[1:], widths[1:], strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def differences(study: Study) -> Iterator[str]:
    """The first difference of each run that has one, with both states."""
    for name, locked in study.locked.items():
        if locked.difference is not None:
            yield f"{name}: {locked.difference}"


def reasons(study: Study) -> list[str]:
    """Of each prediction that has a figure outside its tolerance, what is known of why."""
    lines = []
    for case in study.cases:
        if not any(row.verdict == OUTSIDE for row in case.rows):
            continue
        if not all(study.locked[run.name].right for run in case.runs if run.name in study.locked):
            lines.append(f"{case.name}: its decisions differ in lockstep; begin there")
            continue
        biases = [f"{each.region} {100 * each.bias:+.1f} %" for each in case.step_errors if each.region != "all"]
        line = f"{case.name}: decisions are right when step times are, so the step model is what is off: {', '.join(biases)}"
        if case.alike is not None:
            slower = f"{100 * case.alike.slower:+.1f} ± {100 * case.alike.error:.1f} %"
            line += f"; decode steps of the same composition took {slower} in it: so much is the machine"
        if case.beyond_range > 0:
            line += f"; {100 * case.beyond_range:.0f} % of its steps are beyond the range that was fitted"
        lines.append(line)
    return lines


def verdict(study: Study) -> str:
    """In one line."""
    steps = sum(locked.steps for locked in study.locked.values())
    identical = sum(locked.identical for locked in study.locked.values())
    parts = [f"decisions identical in {identical:,} of {steps:,} steps"]
    if any(locked.requests for locked in study.locked.values()):
        parts[0] += ", but the table of requests says otherwise"
    judged = [row for case in study.cases for row in case.rows if row.verdict not in (UNDEFINED, SATURATED, TOO_FEW)]
    wrong = sum(row.verdict == OUTSIDE for row in judged)
    if study.cases:
        off = next(each.mape for each in study.step_errors if each.region == "all")
        parts.append(f"step times off by {100 * off:.2f} %")
        parts.append(
            f"{wrong} of {len(judged)} figures OUTSIDE their tolerances" if wrong else f"all {len(judged)} figures right"
        )
    else:
        parts.append("nothing predicted")
    return "; ".join(parts)


def errors_csv(study: Study) -> str:
    """A row a figure and a prediction."""
    return csv_text(ERRORS, ((case.name, _fitted(case), case.load, *row) for case in study.cases for row in case.rows))


def steps_csv(study: Study) -> str:
    rows = [(case.name, _fitted(case), *each) for case in study.cases for each in case.step_errors]
    return csv_text(STEP_ERRORS, [*rows, *(("all", "", *each) for each in study.step_errors)])


def spreads_csv(study: Study) -> str:
    rows = [(" ".join(spread.runs), metric, share) for spread in study.spreads() for metric, share in spread.of.items()]
    return csv_text(SPREADS, rows)


def _fitted(case: Case) -> str:
    return " ".join(case.step_model.fitted_to)


def as_json(study: Study) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "valid": not study.wrong(),
        "wrong": study.wrong(),
        "reasons": reasons(study),
        "not_predicted": study.not_predicted,
        "lockstep": {
            name: {
                "steps": locked.steps,
                "identical": locked.identical,
                "first_difference": locked.difference and vars(locked.difference),
                "requests_that_differ": list(locked.requests),
            }
            for name, locked in study.locked.items()
        },
        "step_errors": [each._asdict() for each in study.step_errors],
        "spreads": [{"runs": spread.runs, "spread": dict(spread.of)} for spread in study.spreads()],
        "predictions": [_case_json(case) for case in study.cases],
    }


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "runs": [run.name for run in case.runs],
        "fitted_to": list(case.step_model.fitted_to),
        "latency": case.step_model.content,
        "load": None if math.isinf(case.load) else case.load,
        "step_errors": [each._asdict() for each in case.step_errors],
        "steps_beyond_range": case.beyond_range,
        "steps_alike": case.alike and case.alike._asdict(),
        "errors": [row._asdict() for row in case.rows],
        "simulator": case.simulated.summary,
        "vllm": [half.summary for half in case.engine],
    }
