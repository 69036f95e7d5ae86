"""Writes the folder of a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twin.results import folder as files
from twin.results.atomic import OutputError, reason
from twin.results.folder import RunFolder, plain, refuse_obstacles
from twin.results.record import Record
from twin.results.summary import Summary
from twin.results.tables import requests_table, steps_table, write_parquet


def provenance(
    *,
    command: str,
    policy: Mapping[str, Any],
    versions: Mapping[str, str],
    predictor: Mapping[str, Any] | None = None,
    trace: Mapping[str, Any] | None = None,
    latency: Mapping[str, Any] | None = None,
    warnings: Iterable[str] = (),
) -> dict[str, Any]:
    """What a run says of its making: the section `provenance` of config.yaml, which the report shows.

    `command`: the command line. `policy`: `class`, `file`, `sha256`, and perhaps `description`; `predictor` likewise.
    `trace`: what was read, dropped and why, e.g. `{"read": 100, "kept": 98, "dropped": {"no output": 2}}`; `latency`:
    what the model says of itself. Anything else in these mappings is shown as it stands.
    """
    return plain({
        "command": command, "versions": versions, "policy": policy, "predictor": predictor or {}, "trace": trace or {},
        "latency": latency or {}, "warnings": list(warnings),
    })  # fmt: skip


def save_run(
    path: str | Path,
    record: Record,
    summary: Summary,
    config: Mapping[str, Any],
    *,
    figures: bool = True,
    report: bool = True,
    timeline: bool = False,
) -> None:
    """The numbers, then what is asked of the pictures. `config` is everything resolved, with the section of `provenance`.

    What an earlier run left in the folder goes, but for decisions.jsonl.gz, which is written while a run goes on. Raises
    OutputError; when a picture brings it about the numbers are in place.
    """
    save_numbers(path, record, summary, config)
    save_pictures(path, record, summary, config, figures=figures, report=report, timeline=timeline)


def save_numbers(path: str | Path, record: Record, summary: Summary, config: Mapping[str, Any]) -> None:
    """config.yaml, requests.parquet, steps.parquet, summary.json, all or none; pictures of an earlier run go.

    Raises OutputError.
    """
    refuse_obstacles(path)
    with RunFolder(path) as folder:
        folder.config(config)
        with folder.writing(files.REQUESTS) as handle:
            write_parquet(requests_table(record.requests), handle)
        with folder.writing(files.STEPS) as handle:
            write_parquet(steps_table(record.steps), handle)
        folder.summary(summary)
    _remove_pictures(folder.path)


def save_pictures(
    path: str | Path,
    record: Record,
    summary: Summary,
    config: Mapping[str, Any],
    *,
    figures: bool = True,
    report: bool = True,
    timeline: bool = False,
    pool_page: str | None = None,
) -> None:
    """What is asked of figures/, report.html and timeline.json.gz, and the text of pool.html, all or none.

    Raises OutputError.
    """
    with RunFolder(path) as folder:
        if pool_page is not None:
            folder.text(files.POOL, pool_page)
        if figures:
            _write_figures(folder, record, config.get("slo"))
        if report:
            from twin.results.report import report_html

            folder.text(files.REPORT, report_html(config, summary, record.requests, record.steps))
        if timeline:
            from twin.results.decisions import read_decisions
            from twin.results.timeline import timeline_lines

            log = folder.path / files.DECISIONS
            lines = read_decisions(log) if log.is_file() else ()
            folder.gzipped(files.TIMELINE, timeline_lines(record.requests, record.steps, lines))


def _write_figures(folder: RunFolder, record: Record, slo: Mapping[str, float | None] | None) -> None:
    from twin.results.figures import figures
    from twin.results.style import save_png

    for name, figure in figures(record.requests, record.steps, slo).items():
        with folder.writing(f"{files.FIGURES}/{name}.png") as handle:
            save_png(figure, handle)


def _remove_pictures(path: Path) -> None:
    """Figures of another run beside this one's numbers would be a lie."""
    for old in (path / files.REPORT, path / files.TIMELINE, path / files.POOL, *(path / files.FIGURES).glob("*.png")):
        try:
            old.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot remove {old}, of an earlier run: {reason(error)}") from error
