"""`twin report FOLDER`: report.html of what a run or a sweep has left."""

import json
from pathlib import Path
from typing import Any

from twin.cli.errors import UserError, naming, of_file, one_line

HELP = """usage: python -m twin report FOLDER [FOLDER ...]

Writes report.html into each folder, anew: of a run (`twin run`), of one with several seeds (seeds=N), or of a sweep
(`twin run -m`). The page needs nothing beside it (docs/outputs.md).

example: python -m twin report outputs/first
"""
RUN, SEEDS = "requests.parquet", "seed=*/summary.json"


def main(words: list[str]) -> int:
    """Writes a page a folder, after all of them were found; returns the exit status."""
    if "--help" in words or "-h" in words:
        print(HELP, end="")
        return 0
    options = [word for word in words if word.startswith("-")]
    if options:
        raise UserError(f"{options[0]}: no such option; give folders")
    if not words:
        raise UserError("give a folder that `twin run` wrote; see --help")
    pages = [(Path(word), _page(Path(word))) for word in words]
    for folder, html in pages:
        _write(folder, html)
        print(f"written to {folder / 'report.html'}", flush=True)
    return 0


def write_report(folder: Path) -> None:
    """The page of what lies in the folder. Raises UserError."""
    _write(folder, _page(folder))


def _page(folder: Path) -> str:
    from twin.sweep.table import SWEEP

    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give one that `twin run` wrote")
    if (folder / SWEEP).is_file():
        return _of_sweep(folder)
    if not (folder / RUN).exists() and (seeds := sorted(folder.glob(SEEDS), key=_seed)):
        return _of_seeds(folder, seeds)
    return _of_run(folder)


def _of_run(folder: Path) -> str:
    from twin.results.load import load_run
    from twin.results.report import report_html

    with naming(str(folder)):
        run = load_run(folder)
        return report_html(run.config, run.summary, run.requests, run.steps)


def _of_sweep(folder: Path) -> str:
    from twin.results.sweep_report import sweep_html
    from twin.sweep.table import SWEEP, read_table

    try:
        swept, rows = read_table(folder)
    except OSError as error:
        raise UserError(of_file(error) if error.filename else f"{folder / SWEEP}: {one_line(str(error))}") from error
    except ValueError as error:  # pyarrow's own too
        raise UserError(f"{folder / SWEEP}: {one_line(str(error))}") from error
    return sweep_html(f"Sweep {folder.resolve().name}", swept, rows)


def _of_seeds(folder: Path, summaries: list[Path]) -> str:
    from twin.results.sweep_report import sweep_html

    rows: list[dict[str, Any]] = []
    for path in summaries:
        with naming(str(path)):
            try:
                summary = json.loads(path.read_text(encoding="utf-8"))
            except json.JSONDecodeError as error:
                raise UserError(f"{path}: line {error.lineno}: {error.msg}") from error
        if not isinstance(summary, dict):
            raise UserError(f"{path}: an object of flat keys was expected")
        rows.append({"job": path.parent.name, "status": "finished", "seed": _seed(path), **summary})
    return sweep_html(f"{len(rows)} seeds of {folder.resolve().name}", ["seed"], rows)


def _seed(path: Path) -> int:
    number = path.parent.name.removeprefix("seed=")
    return int(number) if number.isdecimal() else -1


def _write(folder: Path, html: str) -> None:
    from twin.results.atomic import OutputError
    from twin.results.folder import REPORT, RunFolder

    try:
        with RunFolder(folder) as files:
            files.text(REPORT, html)
    except OutputError as error:
        raise UserError(str(error)) from error
