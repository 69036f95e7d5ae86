"""What a profile says of itself when it is done."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine.profile.measure import Profile
from engine.profile.table import Columns

KINDS = {  # words of a reason (contamination.py) -> what is told of all those rows together
    "repeats differ": "repeats differ by more than 5 %",
    "other process": "other processes at work",
    "the device was busy": "the device was busy for longer than the step",
}


def contamination(profile: Profile) -> dict[str, Any]:
    """Counts of rows and points that are not to be trusted, and why: reason without its numbers -> rows."""
    rows = list(zip(profile.rows, profile.reasons(), strict=True))
    bad = [(row, reasons) for row, reasons in rows if reasons]
    return {
        "rows": len(rows),
        "contaminated_rows": len(bad),
        "contaminated_points": len({row.point for row, _ in bad}),
        "reasons": dict(Counter(kind(reason) for _, reasons in bad for reason in reasons).most_common()),
    }


def kind(reason: str) -> str:
    """A reason without its numbers."""
    return next(shown for words, shown in KINDS.items() if words in reason)


def summary_line(counts: dict[str, Any]) -> str:
    """How many rows are contaminated and why, in one line."""
    if not counts["contaminated_rows"]:
        return f"{counts['rows']} rows, none contaminated"
    why = ", ".join(f"{words} ({rows} rows)" for words, rows in counts["reasons"].items())
    return (
        f"{counts['contaminated_rows']} of {counts['rows']} rows, of {counts['contaminated_points']} points, are "
        f"contaminated: {why}"
    )


def by_kind(table: Columns) -> list[tuple[str, int, float, float, float]]:
    """For each kind: (kind, rows, least, median, greatest duration in seconds)."""
    found = []
    for name in dict.fromkeys(table["kind"]):
        durations = sorted(s for k, s in zip(table["kind"], table["duration_s"], strict=True) if k == name)
        found.append((name, len(durations), durations[0], durations[len(durations) // 2], durations[-1]))
    return found
