"""What a run gives in a notebook: its summary, its tables as DataFrames, its figures."""

import html
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError, of_file, one_line
from twin.notebook.options import path_of
from twin.notebook.plots import Plots

if TYPE_CHECKING:
    import pandas

    from twin.results.columns import Table
    from twin.results.record import Record

STYLE = "text-align:right;padding:1px 10px 1px 0"


class Summary(dict[str, Any]):
    """The flat keys of summary.json, which show themselves as the table that the command prints."""

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


class Means(dict[str, Any]):
    """The flat keys of a summary over several seeds: means, and KEY_ci95, how far the 95 % interval reaches to each side."""

    def __repr__(self) -> str:
        from twin.cli.seeds import rows_of

        rows = [(f"mean of {self['seeds']} seeds", "", "95 %"), *rows_of(self)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(f"{key:<{widths[0]}}  {mean:>{widths[1]}}  {half}".rstrip() for key, mean, half in rows)

    def _repr_html_(self) -> str:
        from twin.cli.seeds import rows_of

        return _pairs(
            [(f"mean of {self['seeds']} seeds", "95 %"), *((key, f"{mean} {half}") for key, mean, half in rows_of(self))]
        )


class Run:
    """One simulation: `summary`, `requests`, `steps`, `plot`, `config`, `notes`, `command`; `save` writes its folder.

    `requests` and `steps` are DataFrames with the columns of requests.parquet and steps.parquet.
    """

    def __init__(
        self,
        config: dict[str, Any],
        summary: Mapping[str, Any],
        tables: "tuple[Table, Table]",
        *,
        lines: Sequence[str] = (),
        notes: Sequence[str] = (),
        decisions: list[dict[str, Any]] | None = None,
        pool_page: str | None = None,
        record: "Record | None" = None,
    ) -> None:
        self.config, self.summary = config, Summary(summary)
        self.lines, self.notes, self.decisions = list(lines), list(notes), decisions
        self.plot = Plots(*tables, config.get("slo"))
        self._tables, self._record, self._pool_page = tables, record, pool_page

    @property
    def command(self) -> str:
        """The command that does the same."""
        return str(self.config["provenance"]["command"])

    @cached_property
    def requests(self) -> "pandas.DataFrame":
        """A row a request, in order of arrival."""
        from twin.results.columns import REQUESTS

        return _frame(self._tables[0], REQUESTS)

    @cached_property
    def steps(self) -> "pandas.DataFrame":
        """A row a step, or a run of equal steps with `repeat` > 1."""
        from twin.results.columns import STEPS

        return _frame(self._tables[1], STEPS)

    def save(self, folder: str | Path, *, figures: bool = True, report: bool = True, timeline: bool = False) -> Path:
        """Writes the run folder that the command would have left; files of an earlier run in it are replaced. With
        `output__pool_view=True` it has pool.html too.

        Raises UserError when it cannot be written.
        """
        from twin.cli.folder import claim
        from twin.results.atomic import OutputError
        from twin.results.decisions import DecisionsWriter
        from twin.results.folder import DECISIONS
        from twin.results.save import save_numbers, save_pictures

        if self._record is None:
            raise UserError(f"{folder}: this run was read from a folder; copy that")
        claimed = claim(path_of("folder", folder), given=True, option="folder")
        pictures = {"figures": figures, "report": report, "timeline": timeline}
        try:
            if self.decisions is None:
                (claimed / DECISIONS).unlink(missing_ok=True)
            else:
                with DecisionsWriter(claimed / DECISIONS) as write:
                    for step in self.decisions:
                        write(step)
            save_numbers(claimed, self._record, self.summary, self.config)
            save_pictures(claimed, self._record, self.summary, self.config, pool_page=self._pool_page, **pictures)
        except OutputError as error:
            raise UserError(f"{folder}: {error}") from error
        return claimed

    def __repr__(self) -> str:
        return "\n".join([repr(self.summary), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<div>note: {html.escape(note)}</div>" for note in self.notes)
        return f"<code>{html.escape(self.command)}</code>{html_of(self.summary)}{notes}"


class Runs:
    """The same run for several seeds: `runs`, and `summary`: means with `KEY_ci95`, half of their 95 % interval.

    `requests` and `steps` are those of all runs with their `seed`.
    """

    def __init__(self, runs: Sequence[Run], seeds: Sequence[int], summary: Mapping[str, Any]) -> None:
        self.runs, self.seeds, self.summary = list(runs), list(seeds), Means(summary)

    @cached_property
    def requests(self) -> "pandas.DataFrame":
        return self._together([run.requests for run in self.runs])

    @cached_property
    def steps(self) -> "pandas.DataFrame":
        return self._together([run.steps for run in self.runs])

    def _together(self, frames: "list[pandas.DataFrame]") -> "pandas.DataFrame":
        import pandas

        numbered = [frame.assign(seed=seed) for seed, frame in zip(self.seeds, frames, strict=True)]
        return pandas.concat(numbered, ignore_index=True)

    def __repr__(self) -> str:
        return repr(self.summary)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()


def load(folder: str | Path) -> Run:
    """The run that a folder holds. Raises UserError for one that is missing or damaged."""
    from twin.results.load import RunError, load_run

    try:
        done = load_run(path_of("folder", folder))
    except RunError as error:
        raise UserError(one_line(str(error))) from error
    except OSError as error:
        raise UserError(one_line(of_file(error))) from error
    notes = done.config.get("provenance", {}).get("warnings", [])
    return Run(done.config, done.summary, (done.requests, done.steps), notes=notes)


def text_of(summary: Mapping[str, Any]) -> str:
    """The table that the command prints."""
    from rich.console import Console

    from twin.results.terminal import print_summary

    written = io.StringIO()
    print_summary(summary, console=Console(file=written, highlight=False, width=90, color_system=None))
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def html_of(summary: Mapping[str, Any]) -> str:
    """The same as two small tables, in the notebook's own colours."""
    from twin.results.presentation import STATISTICS, overview

    view = overview(summary)
    head = "".join(f"<th style='{STYLE}'>{name}</th>" for name in ("", *STATISTICS, "n"))
    rows = [
        f"<tr><td style='{STYLE};text-align:left'>{row.name} ({row.unit})</td>"
        + "".join(f"<td style='{STYLE}'>{cell}</td>" for cell in row.cells) + "</tr>"
        for row in view.latency
    ]  # fmt: skip
    facts = [(fact.name, fact.text) for _, group in view.facts() for fact in group]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>{_pairs(facts)}"


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    cells = (f"<tr><td style='{STYLE};text-align:left'>{html.escape(name)}</td>"
             f"<td style='text-align:left'>{html.escape(text)}</td></tr>" for name, text in rows)  # fmt: skip
    return f"<table>{''.join(cells)}</table>"


def _frame(table: "Table", wanted: Mapping[str, Any]) -> "pandas.DataFrame":
    """The columns that the file has, with its types: text is None where nothing is given."""
    import pandas

    return pandas.DataFrame({name: table[name] for name in wanted})
