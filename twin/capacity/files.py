"""What a search leaves: capacity.json, probes.csv, and settings.csv where there were several settings."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from twin.capacity.objectives import ATTAINMENT, Objectives
from twin.capacity.probe import Probe
from twin.capacity.search import ALL, FOUND, NONE, Answer

CAPACITY, PROBES, SETTINGS = "capacity.json", "probes.csv", "settings.csv"
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A setting and what came of it; `why` says why it could not be simulated."""

    setting: Mapping[str, str]
    answer: Answer | None
    why: str = ""

    @property
    def rate(self) -> float:
        """The capacity, requests/s; 0 where there is none."""
        return (self.answer.rate or 0.0) if self.answer else 0.0


def best_of(cells: Iterable[Cell]) -> Cell | None:
    """The cell with the greatest capacity, the first of equal ones; None where none has any."""
    found = [cell for cell in cells if cell.rate > 0]
    return max(found, key=lambda cell: cell.rate, default=None)


def rivals(best: Cell, cells: Iterable[Cell]) -> list[Cell]:
    """The other cells whose interval reaches into that of the best one: the difference may be chance."""
    floor = best.answer.low if best.answer else None
    others = [cell for cell in cells if cell is not best and cell.answer is not None and cell.rate > 0]
    return [cell for cell in others if floor is None or (cell.answer and (cell.answer.high or cell.rate) >= floor)]


def summary(answer: Answer, objectives: Objectives, about: Mapping[str, Any], complete: bool) -> Row:
    """Flat keys. `NAME` is the mean over the seeds at `rate` (where no rate met the objectives: at the best one), beside it
    `NAME_ci`, how far its interval reaches to either side, and `NAME_limit`."""
    best = answer.at or min(answer.probes, key=lambda probe: probe.level(), default=None)
    row: Row = {
        "complete": complete and answer.outcome in (FOUND, NONE, ALL),
        "outcome": answer.outcome,
        "rate": answer.rate,
        "rate_low": answer.low,
        "rate_high": answer.high,
        "missed_rate": answer.beyond.rate if answer.beyond else None,
        "missed_by": answer.beyond.why_not() if answer.beyond else None,
        "measured_at_rate": best.rate if best else None,
        "binding": best.worst if best else None,
        "monotone": answer.monotone,
        "probes": len(answer.probes),
        **about,
    }
    for name in objectives.names:
        mean, half = best.value(name) if best else (None, None)
        row |= {name: mean, f"{name}_ci": half, f"{name}_limit": objectives.limit(name)}
    row |= {f"{name.removesuffix('_s')}_limit": limit for name, limit in objectives.per_request.items()}
    if best:
        row["throughput"] = best.throughput
        row["saturated_share"] = best.saturated
    return {name: _finite(value) for name, value in row.items()}


def json_text(row: Row) -> str:
    """The row as a file; floats to their last digit. Raises ValueError for a nan."""
    return json.dumps(row, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def probe_rows(cells: Iterable[Cell]) -> Iterator[Row]:
    """A row for each setting, rate and seed."""
    for cell in cells:
        for probe in cell.answer.probes if cell.answer else ():
            for each in probe.samples:
                verdict = {"met": int(probe.met()), "saturated": int(each.saturated)}
                ratios = {f"{name}_ratio": ratio for name, ratio in each.ratios.items()}
                yield {**cell.setting, "rate": probe.rate, "seed": each.seed, **verdict, **each.values, **ratios,
                       **each.counts, "throughput": each.throughput}  # fmt: skip


def setting_rows(cells: Iterable[Cell]) -> Iterator[Row]:
    """A row for each setting: its capacity, the interval, what binds."""
    for cell in cells:
        answer = cell.answer
        row: Row = {**cell.setting, "outcome": answer.outcome if answer else "failed", "rate": None}
        if answer:
            row |= {"rate": answer.rate, "rate_low": answer.low, "rate_high": answer.high}
            row |= {"binding": answer.beyond.why_not() if answer.beyond else None, "probes": len(answer.probes)}
        yield row | {"why": cell.why}


def csv_text(rows: Sequence[Row]) -> str:
    """With a header of all columns, in the order in which they first appear; None is empty, floats to their last digit."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: repr(value) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    )
    return text.getvalue()


def best_in_words(answer: Answer, objectives: Objectives) -> str:
    """How near the objectives one comes where no rate meets them."""
    best: Probe = min((probe for probe in answer.probes), key=lambda probe: probe.level())
    parts = []
    for name in objectives.names:
        mean, _ = best.value(name)
        if best.interval(name)[0] > 1:
            asked = f"{100 * objectives.attainment:g} %" if name == ATTAINMENT else f"{objectives.limit(name):g} s"
            parts.append(
                f"{name} {100 * mean:.3g} % of {asked}" if name == ATTAINMENT else f"{name} {mean:.4g} s of {asked}"
            )
    reached = ", ".join(parts) or "its queue grows"
    return f"the best reachable, at {best.rate:.4g} requests/s: {reached}"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value
