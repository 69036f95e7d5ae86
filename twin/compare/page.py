"""report.html of a comparison: tables with verdicts that sort, and figures that zoom."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from twin.compare.compare import Comparison
from twin.compare.curves import FEWEST, PANELS, Point, curves, knees, load_axis
from twin.compare.figures import by_user
from twin.compare.fronts import pareto
from twin.compare.schedule import Parting, parting_words
from twin.compare.tables import cells, pair_words, told
from twin.results import charts, page
from twin.results.charts import Axis, Panel, Rule, Series, chart
from twin.results.run_charts import DISTRIBUTIONS, distribution

HEAD = ("figure", "variant", "value", "±", "difference", "± ", "%", "verdict")
CDF = "Cumulative distributions over the requests of all seeds, without the warm-up."
LOADS = "A point is a load, with its interval as a band. The ring is the knee, where throughput / latency is greatest."
FRONT = "Up and to the left is better; the line joins what nothing else beats."
USERS = "The mean latency per generated token of each user, over the seeds."
MOST_USERS = 60
MOST_SCENES = 12


def comparison_html(
    title: str, comparisons: Sequence[Comparison], partings: Sequence[tuple[str, str, str, Parting]], notes: Sequence[str]
) -> str:
    """The page. `partings`: scene, baseline, variant, and where their schedules part."""
    variants = list(dict.fromkeys(label for each in comparisons for label in each.measured))
    if len(comparisons) > MOST_SCENES:
        notes = [
            *notes,
            f"{len(comparisons):,} traces are compared; the distributions of the first {MOST_SCENES} are drawn.",
        ]
    parts = [
        f"<h1>{page.escape(title)}</h1>",
        f"<p>{page.escape('; '.join(variants))}</p>",
        page.alarm(notes),
        *_over_loads(comparisons),
    ]
    for place, each in enumerate(comparisons):
        mine = [(base, variant, at) for scene, base, variant, at in partings if scene == each.scene.name]
        parts += [page.heading(each.scene.name or "Figures"), *_scene(each, mine, draw=place < MOST_SCENES)]
    return page.document(title, parts)


def _scene(each: Comparison, partings: Sequence[tuple[str, str, Parting]], draw: bool) -> Iterator[str]:
    yield page.paragraph(f"Differences are to {each.baseline}; intervals of {100 * each.confidence:g} %.")
    yield page.table(HEAD, [cells(row) for row in each.rows], tall=len(each.rows) > 30)
    if draw:
        yield chart(_distributions(each), CDF, columns=3)
    if draw and (panel := _users(each)) is not None:
        yield chart([panel], USERS)
    lines = [pair_words(pairs) for pairs in each.pairs if pairs.variant not in each.identical]
    lines += [line for base, variant, at in partings for line in parting_words(base, variant, at)]
    lines += told(each)
    yield page.preformatted("\n".join(lines)) if lines else ""


def _distributions(each: Comparison) -> list[Panel]:
    panels = []
    for key, name, unit, factor, _ in DISTRIBUTIONS:
        series, ends = [], []
        for index, (label, its) in enumerate(each.measured.items()):
            values = np.concatenate([one.rows[key] for one in its]) * factor
            values = values[~np.isnan(values)]
            if len(values):
                ends.append(float(np.percentile(values, 99)))
                series.append(distribution(values, label, charts.colour(index), charts.dashed(index)))
        limits = sorted({limit for its in each.measured.values() for one in its if (limit := one.limits.get(key))})
        rules = [Rule(f"SLO {limit * factor:g} {unit}", x=limit * factor) for limit in limits]
        across = Axis(unit, least=0.0, most=1.25 * max(ends, default=1.0))
        panels.append(Panel(name, series, across, Axis("share of requests", shows="percent", least=0.0, most=1.04), rules))
    return panels


def _users(each: Comparison) -> Panel | None:
    """Points over the names of the users, where there are several and not too many."""
    found = {label: [by_user(one.rows) for one in its] for label, its in each.measured.items()}
    names = sorted({name for seeds in found.values() for users in seeds for name in users})
    if not 1 < len(names) <= MOST_USERS:
        return None
    series = []
    for index, (label, seeds) in enumerate(found.items()):
        values = [[users[name] for users in seeds if not np.isnan(users.get(name, np.nan))] for name in names]
        known = [(name, 1e3 * sum(each) / len(each)) for name, each in zip(names, values, strict=True) if each]
        series.append(Series(label, [name for name, _ in known], [value for _, value in known], "points",
                             charts.colour(index), size=9.0))  # fmt: skip
    return Panel("Latency of each user", series, Axis("user"), Axis("ms per generated token", least=0.0))


def _over_loads(comparisons: Sequence[Comparison]) -> list[str]:
    parts = []
    axis = load_axis(comparisons)
    if axis is not None and max(map(len, (found := curves(comparisons, axis)).values())) >= FEWEST:
        panels = [_load_panel(found, key, name, unit, factor) for key, name, unit, factor in PANELS]
        parts += [page.heading("Over the load"), chart(panels, LOADS, columns=3)]
        if any("goodput" in point.figures for points in found.values() for point in points):
            series = list(_curves(found, "goodput", 1.0, lambda point: point.load))
            parts.append(chart([Panel("Goodput", series, Axis(axis), Axis("requests/s within the SLO", least=0.0))]))
    if sum(len(each.measured) for each in comparisons) > 2:
        parts.append(chart([_front(comparisons)], FRONT))
    return parts


def _load_panel(found: dict[str, list[Point]], key: str, name: str, unit: str, factor: float) -> Panel:
    at = knees(found)
    series = list(_curves(found, key, factor, lambda point: point.value("request_throughput")))
    for label, points in found.items():
        rings = [point for point in points if point.load == at[label]]
        if rings:
            series.insert(0, Series("", [point.value("request_throughput") for point in rings],
                                    [point.value(key) * factor for point in rings], "points", charts.GREY, size=14.0,
                                    texts=[f"{label}: knee at {point.load:g}" for point in rings], in_legend=False,
                                    group=label))  # fmt: skip
    return Panel(name, series, Axis("requests/s served", least=0.0), Axis(unit, least=0.0))


def _curves(found: dict[str, list[Point]], key: str, factor: float, place: Callable[[Point], float]) -> Iterator[Series]:
    for index, (label, points) in enumerate(found.items()):
        x = np.array([place(point) for point in points])
        y = np.array([point.value(key) for point in points]) * factor
        halves = np.array([(point.figures[key].half if key in point.figures else None) or 0.0 for point in points]) * factor
        band: dict[str, Any] = {"low": y - halves, "high": y + halves} if halves.any() else {}
        texts = [f"{label}, load {point.load:g}" for point in points]
        hue = charts.colour(index)
        yield Series(label, x, y, colour=hue, dashed=charts.dashed(index), texts=texts, **band)
        yield Series("", x, y, "points", hue, texts=texts, in_legend=False, group=label)


def _front(comparisons: Sequence[Comparison]) -> Panel:
    """Output tokens a second over the p99 of the time to first token."""
    points: list[tuple[str, str, float, float]] = []
    for each in comparisons:
        for label in each.measured:
            values = {row.figure.key: row.value.value for row in each.rows if row.variant == label}
            x, y = (values.get(key, np.nan) for key in ("ttft_s_p99", "output_token_throughput"))
            if np.isfinite([x, y]).all():
                points.append((label, each.scene.name, float(x), float(y)))
    best = pareto([x for _, _, x, _ in points], [y for _, _, _, y in points])
    series = [Series("front", [points[at][2] for at in best], [points[at][3] for at in best], colour=charts.GREY)]
    for index, label in enumerate(dict.fromkeys(label for label, *_ in points)):
        mine = [point for point in points if point[0] == label]
        texts = [f"{label} {scene}" for _, scene, _, _ in mine]
        across, up = [point[2] for point in mine], [point[3] for point in mine]
        series.append(Series(label, across, up, "points", charts.colour(index), texts=texts, size=9.0))
    return Panel("Pareto front", series, Axis("TTFT p99 (s)", least=0.0), Axis("output tokens/s", least=0.0))
