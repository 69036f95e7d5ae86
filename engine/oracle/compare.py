"""Two plays of one scenario, side by side: the first step that differs, with both states."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

TOLERANCE_S = 1e-9
STAMPS = ("start_s", "end_s", "planned_s")
DECISIONS = (
    "scheduled", "admitted", "preempted", "swapped_in", "outputs", "finished", "cached_tokens", "block_tables", "ref_counts",
    "free_blocks", "copies",
)  # fmt: skip
OF_A_REQUEST = ("status", "first_token_s", "finish_s", "token_times_s", "cached_tokens", "preemptions", "recomputed_tokens")
Row = dict[str, Any]


def first_difference(ours: list[Row], theirs: list[Row]) -> list[str]:
    """What differs first, in lines: what it is, our step, vLLM's step. Empty: nothing differs.

    Both are steps with the summary last. `scheduled` is compared in order, block ids exactly, times to 1e-9 s.
    """
    for number, (mine, gold) in enumerate(zip_longest(ours[:-1], theirs[:-1]), 1):
        if mine is None or gold is None:
            who = "vLLM" if mine is None else "ours"
            return [f"step {number}: only {who} makes it", f"ours  {_line(mine)}", f"vLLM  {_line(gold)}"]
        name = _differs(mine, gold)
        if name is not None:
            return [f"step {number} differs in {name}", f"ours  {_line(mine)}", f"vLLM  {_line(gold)}"]
    return _summary(ours[-1]["summary"], theirs[-1]["summary"])


def _differs(mine: Row, gold: Row) -> str | None:
    for name in STAMPS:
        if not same_time(mine.get(name), gold.get(name)):
            return name
    for name in DECISIONS:
        ours, theirs = mine[name], gold[name]
        if name == "scheduled":
            ours, theirs = list(ours.items()), list(theirs.items())
        if ours != theirs:
            return name
    return None


def _summary(mine: Row, gold: Row) -> list[str]:
    for name in ("steps", "preemptions", "free_blocks"):
        if mine[name] != gold[name]:
            return [f"the summary differs in {name}", f"ours  {mine[name]}", f"vLLM  {gold[name]}"]
    for request, theirs in gold["requests"].items():
        ours = mine["requests"][request]
        for name in OF_A_REQUEST:
            if not _same(ours[name], theirs[name], timed=name.endswith("_s")):
                return [f"the summary of {request} differs in {name}", f"ours  {_line(ours)}", f"vLLM  {_line(theirs)}"]
    return []


def _same(mine: Any, gold: Any, timed: bool) -> bool:
    if isinstance(gold, list):
        return len(mine) == len(gold) and all(map(same_time, mine, gold))
    return same_time(mine, gold) if timed else mine == gold


def same_time(mine: float | None, gold: float | None) -> bool:
    if mine is None or gold is None:
        return mine is gold
    return abs(mine - gold) <= TOLERANCE_S


def _line(row: Row | None) -> str:
    return "-" if row is None else json.dumps(row)
