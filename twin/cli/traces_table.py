"""The table of `twin traces show`: a trace's numbers, beside its source's where there is one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from traces import Trace
    from traces.sources import Source


def print_table(made: "list[Trace]", source: "Source | None", other: "Trace | None") -> None:
    """A row a number: the source's, the trace's (the median over seeds), their range, or the first's alone."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from traces.statistics import statistics

    known = flat(statistics(other)) if other is not None else {} if source is None else source_figures(source)
    found = [flat(statistics(trace)) for trace in made]
    if known:
        title = other.name if other is not None else source.title if source is not None else ""
        print(f"source: {title}" + (f" ({source.credit})" if source is not None else ""))
    shown = Table(box=None, pad_edge=False)
    shown.add_column("")
    if known:
        shown.add_column("source", justify="right")
    shown.add_column(made[0].name if len(made) == 1 else f"{made[0].name}, median of {len(made)}", justify="right")
    if len(made) > 1:
        shown.add_column("from", justify="right")
        shown.add_column("to", justify="right")
    rows = {key: [row[key] for row in found if row.get(key) is not None] for key in dict.fromkeys((*found[0], *known))}
    for key, values in (rows | distances(made, source, other)).items():
        cells = [cell(known.get(key))] if known else []
        cells.append(cell(float(np.median(values))) if values else "")
        if len(made) > 1:
            cells += [cell(min(values)), cell(max(values))] if values else ["", ""]
        shown.add_row(key, *cells)
    Console(highlight=False).print(shown)


def cell(value: float | None) -> str:
    """A number as the table shows it; whole ones without a fraction."""
    from twin.results.presentation import number

    return "" if value is None else number(int(value) if float(value).is_integer() else value)


def flat(figures: dict[str, Any]) -> dict[str, Any]:
    """One level of names: `prompt_tokens p50` and so on."""
    rows: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            rows |= {f"{key} {inner}": number for inner, number in value.items()}
        else:
            rows[key] = value
    return rows


def source_figures(source: "Source") -> dict[str, Any]:
    """What is committed of a source, under the names of `flat`."""
    from traces.statistics import PERCENTILES

    figures: dict[str, Any] = dict(source.figures)
    for side, quantiles in (("prompt", source.prompt_tokens), ("output", source.output_tokens)):
        figures[f"{side}_tokens mean"] = figures.pop(f"{side}_mean")
        by_level = dict(zip(source.levels, quantiles, strict=True))
        figures[f"{side}_tokens max"] = by_level[1]
        figures |= {f"{side}_tokens p{p}": by_level[p / 100] for p in PERCENTILES if p / 100 in by_level}
    return figures


def distances(made: "list[Trace]", source: "Source | None", other: "Trace | None") -> dict[str, list[float]]:
    """Distances of Kolmogorov and Smirnov of lengths; with the committed figures, at the known quantiles alone."""
    from traces.compare import distance_at_quantiles, kolmogorov_smirnov

    if other is not None:
        theirs = lengths(other)
        ours = [lengths(trace) for trace in made]
        return {f"KS {side}": [kolmogorov_smirnov(mine[side], theirs[side]) for mine in ours] for side in theirs}
    if source is None:
        return {}
    known = {"prompt": source.prompt_tokens, "output": source.output_tokens}
    return {
        f"KS {side}, at {len(quantiles)} quantiles": [
            distance_at_quantiles(lengths(trace)[side], source.levels, quantiles) for trace in made
        ]
        for side, quantiles in known.items()
    }


def lengths(trace: "Trace") -> "dict[str, np.ndarray]":
    """The lengths that are compared."""
    prompt, output = trace.prompt_tokens, trace.output_tokens
    return {"prompt": prompt, "output": output, "total": prompt + output}
