"""The summary as people read it: grouped rows with units, for the terminal, the report and READMEs alike."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
NOTHING = "–"

# key of summary.json, name, unit, factor from seconds
LATENCIES = (
    ("ttft_s", "time to first token", "s", 1.0),
    ("tpot_s", "time per output token", "ms", 1e3),
    ("itl_s", "inter-token latency", "ms", 1e3),
    ("e2e_s", "end to end", "s", 1.0),
    ("queue_s", "in the queue", "s", 1.0),
    ("normalized_latency_s", "normalized", "ms/token", 1e3),
)


class Fact(NamedTuple):
    name: str
    text: str


class Latency(NamedTuple):
    name: str
    unit: str
    cells: tuple[str, ...]  # mean, p50, p90, p95, p99, size of the sample


class Overview(NamedTuple):
    """Everything the summary says, ready to print."""

    load: list[Fact]
    latency: list[Latency]
    memory: list[Fact]
    scheduling: list[Fact]
    simulator: list[Fact]

    def facts(self) -> list[tuple[str, list[Fact]]]:
        """The groups of plain facts by title."""
        return [("Load", self.load), ("Memory", self.memory), ("Scheduling", self.scheduling), ("Run", self.simulator)]


def number(value: float | None, digits: int = 4) -> str:
    """To so many significant digits, with thousands separators; never an exponent between 1e-6 and 1e15."""
    if value is None:
        return NOTHING
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    if not 1e-6 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - _whole_digits(value))}f}"


def aligned(values: Sequence[float | None]) -> list[str]:
    """A row of numbers with equally many decimals: four digits of the greatest, or five to give the least two."""
    sizes = [abs(value) for value in values if value]
    greatest, least = (_whole_digits(max(sizes)), _whole_digits(min(sizes))) if sizes else (4, 4)
    decimals = max(0, 4 - greatest, min(5 - greatest, 2 - least))
    return [NOTHING if value is None else f"{value:,.{decimals}f}" for value in values]


def _whole_digits(value: float) -> int:
    """Digits before the decimal point; negative: zeros behind it."""
    return math.floor(math.log10(abs(value))) + 1


def percent(fraction: float | None) -> str:
    return NOTHING if fraction is None else f"{100 * fraction:.1f} %"


def overview(summary: Mapping[str, Any]) -> Overview:
    """Chooses, words and formats what `summary.json` holds; a missing key counts as not defined."""
    known = _Missing(summary)
    return Overview(_load(known), [_latency(known, *row) for row in LATENCIES], _memory(known), _scheduling(known),
                    _run(known))  # fmt: skip


class _Missing(dict[str, Any]):
    def __missing__(self, key: str) -> None:
        return None


def _load(summary: dict[str, Any]) -> list[Fact]:
    fates = [f"{number(summary[name])} {name}" for name in ("finished", "rejected", "aborted", "unfinished")
             if summary[name] or name == "finished"]  # fmt: skip
    facts = [Fact("requests", f"{number(summary['requests'])} ({', '.join(fates)})")]
    if summary["warmup_requests_excluded"]:
        facts.append(Fact("warm-up", f"{number(summary['warmup_requests_excluded'])} more requests left out"))
    facts.append(Fact("duration", f"{number(summary['duration_s'])} s, first arrival to last finish"))
    for key, unit in (("request", "requests/s"), ("output_token", "output tokens/s"), ("total_token", "tokens/s")):
        name = "throughput" if key == "request" else ""
        facts.append(Fact(name, f"{number(summary[f'{key}_throughput'])} {unit}"))
    if summary["slo_attainment"] is not None:
        facts.append(Fact("met the SLO", percent(summary["slo_attainment"])))
        facts.append(Fact("goodput", f"{number(summary['goodput'])} requests/s"))
    return facts


def _latency(summary: dict[str, Any], key: str, name: str, unit: str, factor: float) -> Latency:
    values = [summary[f"{key}_{statistic}"] for statistic in STATISTICS]
    largest = max((value for value in values if value is not None), default=0.0)
    if factor > 1 and largest >= 100:  # beyond 99,999 ms
        unit, factor = unit.replace("ms", "s"), 1.0
    elif factor == 1 and 0 < largest < 0.01:  # a tiny model: more zeros than digits
        unit, factor = unit.replace("s", "ms", 1), 1e3
    cells = aligned([None if value is None else float(value) * factor for value in values])
    return Latency(name, unit, (*cells, number(summary[f"{key}_n"])))


def _memory(summary: dict[str, Any]) -> list[Fact]:
    usage = f"{percent(summary['kv_usage_mean'])} mean, {percent(summary['kv_usage_peak'])} peak"
    facts = [Fact("KV blocks used", usage)]
    if summary["kv_waste_fraction"] is not None:
        facts.append(Fact("of them empty slots", percent(summary["kv_waste_fraction"])))
    if summary["prefix_cache_hit_rate"] is not None:
        facts.append(Fact("prefix cache hits", f"{percent(summary['prefix_cache_hit_rate'])} of prompt tokens"))
    return facts


def _scheduling(summary: dict[str, Any]) -> list[Fact]:
    steps = f"{number(summary['steps'])}, {number(summary['batch_size_mean'])} sequences in the mean step"
    facts = [Fact("steps", steps)]
    if summary["preemptions"]:
        modes = {mode: summary.get(f"{mode}_preemptions") for mode in ("recompute", "swap", "keep")}
        kinds = ", ".join(f"{number(count)} {mode}" for mode, count in modes.items() if count or mode != "keep")
        facts.append(Fact("preemptions", f"{number(summary['preemptions'])} ({kinds})"))
        again = f"{number(summary['recomputed_tokens'])} tokens, {percent(summary['recompute_tax'])} of all computed"
        facts.append(Fact("computed again", again))
    else:
        facts.append(Fact("preemptions", "none"))
    facts.append(Fact("longest queue", f"{number(summary['max_waiting'])} waiting"))
    facts.append(Fact("saturated", _saturated(summary)))
    return facts


def _saturated(summary: dict[str, Any]) -> str:
    if summary["saturated"] is None:
        return "too few arrivals to tell"
    if not summary["saturated"]:
        return "no"
    slope, error = summary["queue_slope_per_s"], summary["queue_slope_error_per_s"]
    if slope is not None and slope > 2 * error:
        return f"yes: the queue grows by {number(slope, 3)} ± {number(error, 2)} requests/s"
    return "yes: the queue never empties"


def _run(summary: dict[str, Any]) -> list[Fact]:
    facts = [] if summary["complete"] is not False else [Fact("complete", "NO: the run was interrupted")]
    speed = summary["simulated_requests_per_wall_s"]
    pace = f", {number(float(speed), 3)} requests/s" if speed else ""
    return [*facts, Fact("real time", f"{number(summary['wall_s'], 3)} s{pace}")]
