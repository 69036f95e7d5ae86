"""What a validation leaves: tables on the terminal; CSV, JSON, figures and a page in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.validate import tables
from engine.validate.comparison import OUTSIDE, UNDEFINED, WITHIN_SPREAD
from engine.validate.figures import load_figure, parity_figure, residuals_figure
from engine.validate.matrix import Matrix
from twin.calibrate.save import latency_file
from twin.results import folder as files
from twin.results import page, style
from twin.results.folder import RunFolder, plain, yaml_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS, STEP_ERRORS, VALIDATION, LATENCY = "errors.csv", "step_errors.csv", "validation.json", "latency.yaml"
CAPTIONS = {
    "parity": "Request by request: the mean of the engine's runs across, the simulator up.",
    "load": "Over time: the engine's first run at each load, and the simulator.",
    "residuals": "Steps of the judged runs, which the latency model was not fitted to.",
}


def save(folder: RunFolder, matrix: Matrix, config: dict[str, Any], command: str) -> None:
    """Numbers and pictures, all or none. Raises OutputError."""
    output = config["output"]
    folder.config(config | {"command": command})
    folder.text(ERRORS, tables.errors_csv(matrix))
    folder.text(STEP_ERRORS, tables.steps_csv(matrix.holdout()))
    folder.text(VALIDATION, json.dumps(plain(tables.as_json(matrix)), indent=2, allow_nan=False) + "\n")
    if matrix.latency_file is not None:
        folder.text(LATENCY, latency_file(matrix.latency_file))
    pictures = dict(_figures(matrix)) if output["figures"] or output["report"] else {}
    if output["figures"]:
        for name, figure in pictures.items():
            with folder.writing(f"{files.FIGURES}/{name}.png") as handle:
                style.save_png(figure, handle)
    if output["report"]:
        folder.text(files.REPORT, html(matrix, pictures, config, command))


def _figures(matrix: Matrix) -> Iterator[tuple[str, Figure]]:
    """By the names of their files."""
    for cells in tables.cases(matrix):
        case = f"{cells[0].case.policy}_{cells[0].case.trace}"
        yield f"parity_{case}", parity_figure(cells)
        yield f"load_{case}", load_figure(cells)
    if matrix.judged_steps():
        assert matrix.latency is not None
        yield "residuals", residuals_figure(matrix.latency, matrix.judged_steps())


def html(matrix: Matrix, pictures: dict[str, Figure], config: dict[str, Any], command: str) -> str:
    """The page: verdict, what is outside, a section a case, the latency model."""
    wrong = tables.outside(matrix)
    title = f"Validation · {config['model']['name']}"
    body = [f"<h1>{page.escape(title)}</h1>", f"<p>{page.escape(verdict(matrix))}</p>"]
    body.append(page.alarm([*_incomplete(matrix), *wrong, *_contamination(matrix)]))
    for cells in tables.cases(matrix):
        case = cells[0].case
        name = f"{case.policy}_{case.trace}"
        body += [
            page.heading(str(case)),
            f"<p>{page.escape(f'{capacity_line(matrix, case.trace)}; {tables.parity_line(cells)}')}</p>",
            page.table(*tables.case_table(cells, matrix)),
        ]
        body += [page.picture(style.to_svg(pictures[f"{kind}_{name}"], f"{kind}_{name}"), CAPTIONS[kind])
                 for kind in ("parity", "load") if f"{kind}_{name}" in pictures]  # fmt: skip
    body += [page.preformatted(text) for text in tables.differences(matrix)]
    body += [f"<p>{page.escape(tables.LEGEND)}.</p>", page.heading("Step by step")]
    body.append(page.table(tables.STEP_HEAD, tables.step_rows(matrix.holdout())))
    if "residuals" in pictures:
        body.append(page.picture(style.to_svg(pictures["residuals"], "residuals"), CAPTIONS["residuals"]))
    assert matrix.latency is not None
    body += [
        page.card("Latency model", page.facts(plain(matrix.latency.describe()).items())),
        page.heading("How it was made"),
        page.preformatted(command),
        page.folded("The whole configuration", page.preformatted(yaml_text(config))),
    ]
    return page.document(title, body)


def capacity_line(matrix: Matrix, trace: str) -> str:
    found = matrix.capacities[trace]
    unsure = (
        ""
        if found.waited
        else ", of the whole burst, for nobody waited in it: fewer seats (scheduler.max_num_seqs) say more"
    )
    return f"capacity {found.requests_per_s:.3g} requests/s ({found.tokens_per_s:,.0f} tokens/s{unsure})"


def verdict(matrix: Matrix) -> str:
    """In one line."""
    judged = [row for cell in matrix.cells for row in cell.rows(matrix.options) if row.verdict != UNDEFINED]
    wrong, by_spread = (sum(row.verdict == verdict for row in judged) for verdict in (OUTSIDE, WITHIN_SPREAD))
    locked = [cell.lockstep for cell in matrix.cells if cell.lockstep is not None]
    different = sum(run.difference is not None for run in locked)
    figures = f"{wrong} of {len(judged)} figures OUTSIDE their tolerances" if wrong else f"all {len(judged)} figures right"
    spread = f" ({by_spread} by the engine's own spread alone)" if by_spread else ""
    same = f"decisions DIFFER in {different} of" if different else "decisions identical in all of"
    return f"{figures}{spread}; {same} {len(locked)} lockstep runs"


def _incomplete(matrix: Matrix) -> list[str]:
    return [] if matrix.complete else ["The validation was interrupted, and speaks of what was played until then."]


def _contamination(matrix: Matrix) -> list[str]:
    found = tables.contaminated(matrix)
    return [f"Others were at work in {len(found)} of {len(matrix.runs)} runs, first in {found[0]}."] if found else []


def show(matrix: Matrix) -> None:
    """The same on the terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for cells in tables.cases(matrix):
        console.print(f"\n{cells[0].case}: {capacity_line(matrix, cells[0].case.trace)}; {tables.parity_line(cells)}")
        head, rows = tables.case_table(cells, matrix)
        console.print(_table(Table(box=None, padding=(0, 1), pad_edge=False), head, rows))
    console.print(tables.LEGEND)
    console.print()
    console.print(
        _table(Table(box=None, padding=(0, 1), pad_edge=False), tables.STEP_HEAD, tables.step_rows(matrix.holdout()))
    )
    for text in tables.differences(matrix):
        console.print(text)
    for text in (*_incomplete(matrix), *_contamination(matrix)):
        console.print(f"note: {text}")
    console.print(verdict(matrix))


def _table(table: Any, head: list[str], rows: list[list[str]]) -> Any:
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
