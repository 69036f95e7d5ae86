"""The figures of a sweep: what came out over what was swept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from twin.results import charts
from twin.results.charts import Axis, Heat, Panel, Series

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """A key of summary.json as a figure and a column show it."""

    key: str
    name: str
    unit: str
    factor: float = 1.0  # from the key's unit

    @property
    def title(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


METRICS = (
    Metric("ttft_s_p50", "TTFT p50", "s"),
    Metric("ttft_s_p99", "TTFT p99", "s"),
    Metric("tpot_s_p50", "TPOT p50", "ms", 1e3),
    Metric("tpot_s_p99", "TPOT p99", "ms", 1e3),
    Metric("e2e_s_p50", "end to end p50", "s"),
    Metric("e2e_s_p99", "end to end p99", "s"),
    Metric("request_throughput", "throughput", "requests/s"),
    Metric("output_token_throughput", "output tokens", "tokens/s"),
    Metric("goodput", "goodput", "requests/s"),
    Metric("slo_attainment", "met the SLO", "%", 100.0),
    Metric("kv_usage_mean", "KV in use", "%", 100.0),
    Metric("preemptions", "preemptions", ""),
    Metric("max_waiting", "longest queue", ""),
)
LATENCY, LOAD = "e2e_s_p99", "request_throughput"
DRAWN = ("ttft_s_p50", "ttft_s_p99", "tpot_s_p99", LATENCY, LOAD, "goodput", "slo_attainment")
MAPPED = ("ttft_s_p99", "tpot_s_p99", LOAD, "goodput")
MORE_IS_BETTER = (LOAD, "goodput", "slo_attainment")
MOST_LINES = 16
MOST_MAPS = 4  # combinations of the other options
MOST_CELLS = 1600


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def metrics_of(rows: Sequence[Row]) -> list[Metric]:
    """Those that any job has."""
    return [metric for metric in METRICS if any(is_number(row.get(metric.key)) for row in rows)]


def numeric(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Options of numbers that differ, the one with the most values first: that is the axis of the figures."""
    found = [name for name in names if all(is_number(row.get(name)) for row in rows)]
    counts = {name: len({row[name] for row in rows}) for name in found}
    return sorted((name for name in found if counts[name] > 1), key=lambda name: -counts[name])


def groups_by(names: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The jobs by the values of these options, worded."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        words = [str(row[name]) if len(names) == 1 else f"{_short(name)}={row[name]}" for name in names]
        groups.setdefault(", ".join(words) or "all jobs", []).append(row)
    return groups


def line_panels(across: str, groups: Mapping[str, Sequence[Row]], known: Sequence[Metric]) -> list[Panel]:
    """A panel a metric over the option, a line a group; first latency over the throughput that was reached: see its knee."""
    panels = []
    by_key = {metric.key: metric for metric in known}
    if LATENCY in by_key and LOAD in by_key:
        series = _curves(across, groups, by_key[LATENCY], lambda row: row.get(LOAD))
        axis = Axis("requests/s", least=0.0)
        panels.append(Panel("Latency over throughput", series, axis, Axis("end to end p99 (s)", least=0.0)))
    for metric in known:
        if metric.key in DRAWN:
            series = _curves(across, groups, metric, lambda row: row[across])
            panels.append(Panel(metric.name, series, Axis(_short(across)), Axis(metric.unit, least=0.0)))
    return panels


def _curves(across: str, groups: Mapping[str, Sequence[Row]], metric: Metric, place: Callable[[Row], Any]) -> list[Series]:
    """A line a group through its jobs in order of the option, each marked."""
    series: list[Series] = []
    for index, (label, members) in enumerate(list(groups.items())[:MOST_LINES]):
        ordered = sorted(
            (row for row in members if is_number(row.get(metric.key)) and is_number(place(row))), key=lambda row: row[across]
        )
        if not ordered:
            continue
        x = np.array([place(row) for row in ordered], dtype=float)
        y = np.array([row[metric.key] * metric.factor for row in ordered], dtype=float)
        half = np.array([(row.get(f"{metric.key}_ci95") or 0.0) * metric.factor for row in ordered])
        band = {"low": y - half, "high": y + half} if half.any() else {}
        hue, texts = charts.colour(index), [str(row["job"]) for row in ordered]
        series.append(Series(label, x, y, colour=hue, dashed=charts.dashed(index), texts=texts, **band))
        series += _marks(x, y, ordered, hue, label)
    return series


def _marks(x: np.ndarray, y: np.ndarray, rows: Sequence[Row], hue: str, group: str) -> list[Series]:
    """Points on a line; those of saturated jobs have a red ring."""
    hot = np.array([row.get("saturated") is True for row in rows])
    texts = [f"{row['job']}: saturated" if is_hot else str(row["job"]) for row, is_hot in zip(rows, hot, strict=True)]
    marks = [Series("", x, y, "points", hue, texts=texts, size=7.0, in_legend=False, group=group)]
    if hot.any():
        told = [text for text, is_hot in zip(texts, hot, strict=True) if is_hot]
        ring = Series("", x[hot], y[hot], "points", charts.RED, texts=told, size=12.0, in_legend=False, group=group)
        marks.insert(0, ring)
    return marks


def bar_panels(swept: Sequence[str], rows: Sequence[Row], known: Sequence[Metric]) -> list[Panel]:
    """A bar a job, where nothing that was swept is a number."""
    panels = []
    for metric in known:
        found = [row for row in rows if is_number(row.get(metric.key))][:MOST_LINES]
        names = [", ".join(str(row[name]) for name in swept) or str(row["job"]) for row in found]
        values = [float(row[metric.key]) * metric.factor for row in found]
        bars = Series(metric.name, names, values, "bars")
        if metric.key in DRAWN:
            panels.append(Panel(metric.name, [bars], Axis(", ".join(map(_short, swept))), Axis(metric.unit, least=0.0)))
    return panels


def map_panels(across: str, up: str, rest: Sequence[str], rows: Sequence[Row], known: Sequence[Metric]) -> list[Panel]:
    """A map a metric over two options, for each combination of the others."""
    groups = list(groups_by(rest, rows).items())[:MOST_MAPS]
    maps = [
        _map(across, up, members, metric, label if len(groups) > 1 else "")
        for metric in known if metric.key in MAPPED for label, members in groups
    ]  # fmt: skip
    return [panel for panel in maps if panel is not None]


def _map(across: str, up: str, rows: Sequence[Row], metric: Metric, note: str) -> Panel | None:
    """The mean of the jobs of each cell; None where there is no grid to speak of."""
    columns, lines = (sorted({float(row[name]) for row in rows}) for name in (across, up))
    if min(len(columns), len(lines)) < 2 or len(columns) * len(lines) > MOST_CELLS:
        return None
    cells: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        if is_number(value := row.get(metric.key)):
            cells.setdefault((lines.index(row[up]), columns.index(row[across])), []).append(value * metric.factor)
    if not cells:
        return None
    values = np.full((len(lines), len(columns)), np.nan)
    for place, found in cells.items():
        values[place] = sum(found) / len(found)
    sign = -1.0 if metric.key in MORE_IS_BETTER else 1.0
    best = min(cells, key=lambda place: (sign * values[place], place))
    heat = Heat([f"{value:g}" for value in columns], [f"{value:g}" for value in lines], values.tolist(), metric.unit, best)
    height = 90 + 40 * max(4, min(len(lines), 14))
    return Panel(metric.title, heat=heat, x=Axis(_short(across)), y=Axis(_short(up)), note=note, height=height)


def _short(option: str) -> str:
    return option.rpartition(".")[2]
