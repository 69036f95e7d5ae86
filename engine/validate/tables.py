"""What a validation found, as tables: for the terminal, the page, the CSV files, the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.validate.comparison import OUTSIDE, UNDEFINED, WITHIN_SPREAD, Row, cancelling
from engine.validate.csv_text import csv_text
from engine.validate.matrix import Cell, Matrix
from engine.validate.steps import StepErrors

MARKS = {OUTSIDE: " !", WITHIN_SPREAD: " ~"}
LEGEND = "error of the simulator ± the engine's own spread, percent; ! outside its tolerance, ~ within that spread alone"
ERRORS = ("policy", "trace", "load", "requests_per_s", *Row._fields)


def cell_text(row: Row) -> str:
    """`+1.2 ± 0.4`, in percent."""
    if row.verdict == UNDEFINED:
        return "-"
    error = "none" if row.error is None else f"{100 * row.error:+.1f}"
    spread = "" if row.spread is None else f" ± {100 * row.spread:.1f}"
    return f"{error}{spread}{MARKS.get(row.verdict, '  ')}"


def cases(matrix: Matrix) -> list[list[Cell]]:
    """The cells of each case that the engine has played at least once, in order of the loads."""
    found: dict[str, list[Cell]] = {}
    for cell in matrix.cells:
        if cell.engine and cell.simulated is not None:
            found.setdefault(str(cell.case), []).append(cell)
    return list(found.values())


def case_table(cells: Sequence[Cell], matrix: Matrix) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row a figure, a column a load."""
    columns = [{row.metric: row for row in cell.rows(matrix.options)} for cell in cells]
    head = ["", *(f"load {cell.load:g}" for cell in cells)]
    metrics = list(dict.fromkeys(metric for column in columns for metric in column))
    return head, [
        [metric, *(cell_text(column[metric]) if metric in column else "" for column in columns)] for metric in metrics
    ]


def step_rows(errors: Iterable[StepErrors]) -> list[list[str]]:
    return [
        [
            each.region,
            f"{each.steps:,}",
            *(f"{100 * value:.1f}" for value in (each.mape, each.p90)),
            f"{100 * each.bias:+.1f}",
        ]
        for each in errors
    ]


STEP_HEAD = ["steps of the judged runs", "steps", "MAPE %", "p90 %", "bias %"]


def parity_line(cells: Sequence[Cell]) -> str:
    """What lockstep said of a case."""
    locked = [cell for cell in cells if cell.lockstep is not None]
    different = [cell for cell in locked if cell.lockstep is not None and cell.lockstep.difference is not None]
    steps = sum(cell.lockstep.steps for cell in locked if cell.lockstep is not None)
    if not locked:
        return "decisions: not compared yet"
    if not different:
        return f"decisions identical in {steps:,} steps of {len(locked)} run{'s' if len(locked) > 1 else ''}"
    return f"decisions DIFFER at load {', '.join(f'{cell.load:g}' for cell in different)}"


def differences(matrix: Matrix) -> Iterator[str]:
    """The first difference of each run that has one, with both states."""
    for cell in matrix.cells:
        if cell.lockstep is not None and cell.lockstep.difference is not None:
            yield f"{cell.case}, load {cell.load:g}: {cell.lockstep.difference}"


def outside(matrix: Matrix) -> list[str]:
    """Everything that is not as it should be, a line each; empty: validated."""
    lines = [line.partition("\n")[0] for line in differences(matrix)]
    for cell in matrix.cells:
        rows = cell.rows(matrix.options)
        for row in rows:
            if row.verdict == OUTSIDE:
                error = "one half has none" if row.error is None else f"off by {100 * row.error:+.1f} %"
                spread = "" if row.spread is None else f", the engine's own spread {100 * row.spread:.1f} %"
                lines.append(
                    f"{cell.case}, load {cell.load:g}: {row.metric} {error}, tolerance {100 * row.tolerance:g} %{spread}"
                )
        if words := cancelling(rows):
            lines.append(f"{cell.case}, load {cell.load:g}: {words}")
    return lines


def contaminated(matrix: Matrix) -> list[str]:
    """Runs in which others were at work, in words."""
    return [f"{what}: {foreign}" for what, foreign in matrix.runs if foreign is not None]


def errors_csv(matrix: Matrix) -> str:
    """A row a figure, a load and a case."""
    rows = [
        (cell.case.policy, cell.case.trace, f"{cell.load:g}", cell.rate, *row)
        for cell in matrix.cells
        for row in cell.rows(matrix.options)
    ]
    return csv_text(ERRORS, rows)


def steps_csv(errors: Sequence[StepErrors]) -> str:
    return csv_text(StepErrors._fields, errors)


def as_json(matrix: Matrix) -> dict[str, Any]:
    """All of it, for programs."""
    assert matrix.latency is not None
    return {
        "complete": matrix.complete,
        "valid": matrix.complete and not outside(matrix),
        "outside": outside(matrix),
        "contaminated_runs": contaminated(matrix),
        "runs": len(matrix.runs),
        "latency": matrix.latency_file or matrix.latency.describe(),
        "steps_fitted_to": sum(len(steps) for _, steps in matrix.fitted_to) if matrix.latency_file else 0,
        "step_errors": [each._asdict() for each in matrix.holdout()],
        "capacity": {trace: found._asdict() for trace, found in matrix.capacities.items()},
        "cells": [_cell_json(cell, matrix) for cell in matrix.cells],
    }


def _cell_json(cell: Cell, matrix: Matrix) -> dict[str, Any]:
    difference = cell.lockstep.difference if cell.lockstep is not None else None
    return {
        "policy": cell.case.policy,
        "trace": cell.case.trace,
        "load": cell.load,
        "requests_per_s": cell.rate,
        "decisions_identical": cell.lockstep and difference is None,
        "steps_compared": cell.lockstep and cell.lockstep.steps,
        "first_difference": difference and vars(difference),
        "errors": [row._asdict() for row in cell.rows(matrix.options)],
        "simulator": cell.simulated and cell.simulated.summary,
        "engine": [run.summary for run in cell.engine],
    }
