"""What came of a run, for people: the goals first, then the tables in short, then everything that one should know."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.on_gpu.bandwidth import AGREE
from bench.on_gpu.items import BROKEN, DONE, OUT_OF_TIME, Outcome

Rows = list[dict[str, Any]]
BANDWIDTH_GOAL, BANDWIDTH_FROM_GB, DECODE_GOAL = 0.85, 1.0, 0.75
NOT_MEASURED = "not measured"
BAD = (BROKEN, OUT_OF_TIME)


def summary(about: Mapping[str, Any], outcomes: list[Outcome]) -> str:
    """Markdown."""
    if about["dry_run"]:
        title = [
            "# Dry run",
            "",
            "**Tiny sizes on a CPU: this shows that the program runs. No figure here is one of a GPU.**",
        ]
    else:
        title = [f"# {about['device']}"]
    versions = ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items())
    lines = [*title, "", f"    {about['command']}", "", f"{about['date']}; {versions}", ""]
    lines += _goals(outcomes, about["dry_run"])
    lines += _states(outcomes)
    lines += _shown("Bandwidth of the decode kernels", _rows(outcomes, "bandwidth"), (
        "batch", "context", "group", "head_dim", "kv_dtype", "backend", "how", "kv_gb", "median_us", "gb_s", "of_copy",
        "why",
    ))  # fmt: skip
    lines += _shown("Decode steps", _rows(outcomes, "decode"), (
        "layers", "batch", "context", "how", "roofline_ms", "step_ms", "device_ms", "tokens_s", "of_roofline",
        "device_of_roofline", "why",
    ))  # fmt: skip
    lines += _shown("Swapping", _rows(outcomes, "swap"), ("way", "run_blocks", "copies", "gb_s", "plain_gb_s", "of_plain"))
    notes = [f"- {note}" for outcome in outcomes for note in outcome.notes]
    lines += ["## Notes", "", *notes] if notes else []
    return "\n".join(lines).rstrip() + "\n"


def wrong(outcomes: list[Outcome]) -> list[str]:
    """What a run must not end well with: sections that broke or hung, failed checks, results that differ."""
    found = [
        f"{outcome.name}: {part.part}: {part.why}" for outcome in outcomes for part in outcome.parts if part.state in BAD
    ]
    for row in _rows(outcomes, "checks"):
        if row["verdict"] == "failed":
            found.append(f"checks: {row['check']}, {row['of']}: {row['why']}")
    for row in _rows(outcomes, "bandwidth"):
        if "differs_by" in row and not row["differs_by"] <= AGREE:  # NaN is not
            point = ", ".join(f"{name} {row[name]}" for name in ("batch", "context", "group", "head_dim", "kv_dtype"))
            found.append(f"bandwidth: attention={row['backend']} differs by {row['differs_by']:.2g} from another ({point})")
    return found


def _goals(outcomes: list[Outcome], dry_run: bool) -> list[str]:
    verdicts = Counter(row["verdict"] for row in _rows(outcomes, "checks"))
    checks = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or NOT_MEASURED
    lines = ["| goal | asked | least | median | met |", "|---|--:|--:|--:|---|", f"| checks | none failed | | | {checks} |"]
    large = [row for row in _rows(outcomes, "bandwidth") if row["kv_gb"] >= BANDWIDTH_FROM_GB and "of_copy" in row]
    names = list(dict.fromkeys(row["backend"] for row in large))
    for name in names or ["decode kernels"]:
        shares = [row["of_copy"] for row in large if row["backend"] == name]
        lines.append(_goal(f"attention={name}, of a copy, from 1 GB" if names else name, BANDWIDTH_GOAL, shares, dry_run))
    graphs = [row for row in _rows(outcomes, "decode") if row["how"] == "graph" and "of_roofline" in row]
    for column, words in (("of_roofline", "whole steps"), ("device_of_roofline", "on the device")):
        shares = [row[column] for row in graphs]
        lines.append(_goal(f"decode, {words}, of the memory roofline", DECODE_GOAL, shares, dry_run))
    return [*lines, ""]


def _goal(name: str, asked: float, shares: Sequence[float], dry_run: bool) -> str:
    if not shares:
        return f"| {name} | {asked:.0%} | | | {NOT_MEASURED} |"
    met = f"{sum(share >= asked for share in shares)} of {len(shares)}" if not dry_run else "dry run"
    return f"| {name} | {asked:.0%} | {min(shares):.0%} | {median(shares):.0%} | {met} |"


def _states(outcomes: list[Outcome]) -> list[str]:
    lines = ["| section | state | seconds | of | why |", "|---|---|--:|--:|---|"]
    for outcome in outcomes:
        why = "; ".join(f"{part.part}: {part.why}" for part in outcome.parts if part.state != DONE)
        cells = (outcome.name, outcome.state, f"{outcome.seconds:.0f}", f"{outcome.allotted_s:.0f}", _escaped(why))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _rows(outcomes: list[Outcome], table: str) -> Rows:
    return [row for outcome in outcomes for row in outcome.rows(table)]


def _shown(title: str, rows: Rows, columns: tuple[str, ...]) -> list[str]:
    head = [f"## {title}", ""]
    if not rows:
        return [*head, f"{NOT_MEASURED.capitalize()}.", ""]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(_cell(row.get(column, '')) for column in columns)} |" for row in rows]
    return [*head, *lines, ""]


def _cell(value: Any) -> str:
    """Three digits are what a measurement is worth."""
    if not isinstance(value, float):
        return _escaped(str(value))
    return f"{value:,.0f}" if math.isfinite(value) and abs(value) >= 1000 else f"{value:.3g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
