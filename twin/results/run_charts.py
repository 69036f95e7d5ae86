"""The figures of a run's report: what `figures.py` draws on paper, to zoom into, and its requests and steps besides."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from twin.results import charts
from twin.results.charts import Axis, Panel, Rule, Series
from twin.results.columns import Table
from twin.results.presentation import number
from twin.results.style import time_axis
from twin.results.thin import Curve, cumulative, during, held, over_time, thinned
from twin.results.timeweighted import Rows, replicas

DISTRIBUTIONS = (("ttft_s", "Time to first token", "s", 1.0, charts.BLUE),
                 ("tpot_s", "Time per output token", "ms", 1e3, charts.ORANGE),
                 ("e2e_s", "End to end", "s", 1.0, charts.GREEN))  # fmt: skip
MARKED = (50, 90, 99)
MOST_POINTS = 2000  # of a scatter
MOST_MARKS = 400


def distribution(values: np.ndarray, name: str, colour: str, dashed: bool = False) -> Series:
    """A cumulative distribution as a curve; nan is left out."""
    across, share = cumulative(values)
    x, y = np.concatenate((across[:1], across)), np.concatenate(([0.0][: len(across)], share))
    return Series(name, x, y, "step", colour, dashed)


def latency_panels(requests: Table, slo: Mapping[str, float | None] | None = None) -> list[Panel]:
    """Distributions of TTFT, TPOT and E2E with their p50, p90 and p99, and the SLO where there is one."""
    panels = []
    for key, name, unit, factor, colour in DISTRIBUTIONS:
        values = requests[key] * factor
        values = values[~np.isnan(values)]
        series = [distribution(values, name, colour)] if len(values) else []
        most = None
        if len(values):
            marks = np.percentile(values, MARKED)
            words = [f"p{percent}  {number(float(at), 3)}" for percent, at in zip(MARKED, marks, strict=True)]
            series.append(Series(name, marks, np.array(MARKED) / 100, "points", colour, texts=words, labels=words,
                                 in_legend=False))  # fmt: skip
            # Room for the last label; a tail far beyond the p99 is reached by zooming out.
            most = max(float(marks[-1]) * 1.45, min(float(values.max()) * 1.03, float(marks[-1]) * 3))
        limit = (slo or {}).get(key)
        rules = [] if limit is None else [Rule(f"SLO {limit * factor:g} {unit}", x=limit * factor)]
        if most is not None and limit is not None:
            most = max(most, min(1.1 * limit * factor, 3 * most))
        scale = Axis(unit, least=0.0, most=most)
        panels.append(Panel(name, series, scale, Axis("share of requests", shows="percent", least=0.0, most=1.04), rules,
                            note=f"n = {len(values):,}"))  # fmt: skip
    return panels


def load_panels(steps: Table) -> list[Panel]:
    """KV blocks, requests and tokens over time, one below the other."""
    ends_s = steps["start_s"] + steps["duration_s"]
    divisor, unit = time_axis(float(ends_s.max(initial=0.0)))
    rows = replicas(steps)
    last = float(ends_s.max(initial=0.0)) / divisor
    across = Axis("", least=0.0, most=last or 1.0)
    panels = [
        Panel("KV blocks", _blocks(steps, rows, divisor), across, Axis("of the pool", shows="percent", least=0.0, most=1.09),
              height=220),
        Panel("Requests", _counts(steps, rows, divisor), across, Axis("requests"), height=220),
        Panel("Tokens a step", _tokens(steps, rows, divisor), replace(across, label=f"time ({unit})"), Axis("tokens"),
              height=240),
    ]  # fmt: skip
    return [panel for panel in panels if panel.series]


def _blocks(steps: Table, rows: list[Rows], divisor: float) -> list[Series]:
    pool = steps["used_blocks"] + steps["cached_blocks"] + steps["free_blocks"]
    used = steps["used_blocks"] / pool
    series = []
    if len(rows) == 1 and steps["cached_blocks"].any():
        resident = over_time(rows[0], (used + steps["cached_blocks"] / pool)[rows[0].at])
        low = over_time(rows[0], used[rows[0].at]).mean
        series.append(Series("with cached prefixes", resident.times_s / divisor, resident.mean, colour=charts.GREY, low=low,
                             high=resident.mean))  # fmt: skip
    series += _each("in use", rows, used, divisor, charts.BLUE, over_time)
    hit = np.flatnonzero(steps["preempted"] > 0)
    if len(hit):
        shown = hit[thinned(len(hit), MOST_MARKS)]
        texts = [f"{count} preempted in step {step}" for count, step in
                 zip(steps["preempted"][shown], steps["step"][shown], strict=True)]  # fmt: skip
        series.append(Series(f"preemptions ({int(steps['preempted'].sum()):,})", steps["start_s"][shown] / divisor,
                             np.full(len(shown), 1.05), "points", charts.RED, texts=texts, size=5.0))  # fmt: skip
    return series


def _counts(steps: Table, rows: list[Rows], divisor: float) -> list[Series]:
    kinds = (("running", charts.GREEN), ("waiting", charts.ORANGE), ("swapped", charts.GREY))
    return [
        series for name, colour in kinds if name != "swapped" or steps["swapped"].any()
        for series in _each(name, rows, steps[name], divisor, colour, held)
    ]  # fmt: skip


def _tokens(steps: Table, rows: list[Rows], divisor: float) -> list[Series]:
    kinds = (("prefill tokens", "prefill_tokens", charts.PURPLE), ("decode tokens", "decode_tokens", charts.GREEN))
    return [series for name, key, colour in kinds for series in _each(name, rows, steps[key], divisor, colour, during)]


def _each(
    name: str, rows: list[Rows], values: np.ndarray, divisor: float, colour: str, shape: Callable[[Rows, np.ndarray], Curve]
) -> list[Series]:
    """A curve a replica; where there are several each has a colour of its own."""
    if len(rows) == 1:
        return [_curve(shape(rows[0], values[rows[0].at]), divisor, name, colour)]
    return [
        _curve(shape(each, values[each.at]), divisor, f"{name}, replica {index}", charts.colour(index))
        for index, each in enumerate(rows)
    ]


def _curve(curve: Curve, divisor: float, name: str, colour: str) -> Series:
    if not curve.exact:
        return Series(name, curve.times_s / divisor, curve.mean, colour=colour, low=curve.low, high=curve.high)
    times, values = curve.times_s, curve.mean
    moved = np.concatenate(([True][: len(times)], (times[1:] != times[:-1]) | (values[1:] != values[:-1])))
    return Series(name, times[moved] / divisor, values[moved], colour=colour)


def request_panels(requests: Table) -> list[Panel]:
    """Each request by its arrival: how long to its first token, and how long per token then.

    Of many, those that were slowest and an even sample of the others.
    """
    divisor, unit = time_axis(float(np.nanmax(requests["arrival_s"], initial=0.0)))
    panels = []
    for key, name, of, factor, colour in DISTRIBUTIONS[:2]:
        known = np.flatnonzero(~np.isnan(requests[key]))
        if not len(known):
            continue
        shown = _sample(requests[key][known], known)
        kept = requests["preemptions"][shown] > 0
        series = [
            Series(label, requests["arrival_s"][rows] / divisor, requests[key][rows] * factor, "points", ink,
                   texts=_words(requests, rows), size=4.0 if len(shown) > 300 else 7.0)
            for label, rows, ink in (("never preempted", shown[~kept], colour), ("preempted", shown[kept], charts.RED))
            if len(rows)
        ]  # fmt: skip
        note = f"{len(shown):,} of {len(known):,}" if len(shown) < len(known) else f"n = {len(known):,}"
        panels.append(Panel(f"{name} by arrival", series, Axis(f"arrival ({unit})"), Axis(of, least=0.0), note=note))
    return panels


def _sample(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if len(rows) <= MOST_POINTS:
        return rows
    worst = np.argpartition(values, -MOST_POINTS // 10)[-MOST_POINTS // 10 :]
    return np.sort(rows[np.union1d(worst, thinned(len(rows), MOST_POINTS - len(worst)))])


def _words(requests: Table, rows: np.ndarray) -> list[str]:
    columns = zip(
        requests["request_id"][rows], requests["prompt_tokens"][rows], requests["generated_tokens"][rows], strict=True
    )
    return [f"{request}: {prompt:,} + {generated:,} tokens" for request, prompt, generated in columns]
