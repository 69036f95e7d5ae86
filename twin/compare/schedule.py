"""Where two schedules part: the first step in which they did not do the same, and what each did."""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from twin.results.atomic import reason
from twin.results.columns import Table
from twin.results.folder import DECISIONS
from twin.results.load import RunError

DECIDED = ("scheduled", "admitted", "preempted", "swapped_in", "finished")
AFTER = ("context_tokens", "waiting", "running", "swapped", "used_blocks", "preempted")
DURING = ("prefill_tokens", "decode_tokens", "sequences")
MOST = 12  # names in a line


@dataclass(frozen=True)
class Parting:
    """`step` is None where they never part; `first` and `second` say in words what each did in that step."""

    step: int | None
    start_s: float | None
    first: str
    second: str
    source: str  # decisions.jsonl.gz, or steps.parquet, which tells counts alone


def parting_words(base: str, variant: str, at: Parting) -> list[str]:
    """Where two schedules part, line by line."""
    if at.step is None:
        return [f"schedule of {variant}: that of {base} in every step ({at.source})"]
    start = "" if at.start_s is None else f" at {at.start_s:.6g} s"
    more = "" if at.source == DECISIONS else ", of counts alone; output.decisions=true tells who"
    return [
        f"schedules of {base} and {variant} part in step {at.step:,}{start} ({at.source}{more})",
        f"  {base}: {at.first}",
        f"  {variant}: {at.second}",
    ]


def parting(first: Path, second: Path, steps: tuple[Table, Table]) -> Parting:
    """By decisions where both folders have them, else by what `steps.parquet` tells. Raises RunError."""
    paths = first / DECISIONS, second / DECISIONS
    if all(path.is_file() for path in paths):
        return by_decisions(_lines(paths[0]), _lines(paths[1]))
    return by_steps(*steps)


def by_decisions(first: Iterator[dict[str, Any]], second: Iterator[dict[str, Any]]) -> Parting:
    """The first step that differs in who was given how many tokens, admitted, preempted, swapped in or finished."""
    for a, b in zip_longest(first, second):
        if a is None or b is None:
            there = a or b
            assert there is not None
            words = _did(there, DECIDED)
            return Parting(
                there["step"], there["start_s"], words if a else "it had ended", words if b else "it had ended", DECISIONS
            )
        unlike = [key for key in DECIDED if not _alike(a.get(key), b.get(key))]
        if unlike or a["start_s"] != b["start_s"]:
            keys = unlike or ["start_s"]
            return Parting(a["step"], a["start_s"], _only(a, b, keys), _only(b, a, keys), DECISIONS)
    return Parting(None, None, "", "", DECISIONS)


def by_steps(first: Table, second: Table) -> Parting:
    """The first step that differs in its tokens or sequences, in when it starts, or in what it left behind.

    A row may stand for several steps, and says of the last alone what it left.
    """
    source = "steps.parquet"
    left, right = 0, 0  # rows
    done_left = done_right = 0  # steps of these rows that are behind
    while left < len(first["step"]) and right < len(second["step"]):
        step = int(first["step"][left]) + done_left
        rest = int(first["repeat"][left]) - done_left, int(second["repeat"][right]) - done_right
        unlike = [name for name in DURING if first[name][left] != second[name][right]]
        if not done_left and not done_right and first["start_s"][left] != second["start_s"][right]:
            unlike.append("start_s")
        if rest[0] == rest[1]:
            unlike += [name for name in AFTER if first[name][left] != second[name][right]]
        if unlike:
            at = step if rest[0] != rest[1] or set(unlike) & {*DURING, "start_s"} else step + rest[0] - 1
            return Parting(
                at, float(first["start_s"][left]), _counts(first, left, unlike), _counts(second, right, unlike), source
            )
        taken = min(rest)
        left, done_left = (left + 1, 0) if taken == rest[0] else (left, done_left + taken)
        right, done_right = (right + 1, 0) if taken == rest[1] else (right, done_right + taken)
    if left < len(first["step"]) or right < len(second["step"]):
        table, row = (first, left) if left < len(first["step"]) else (second, right)
        words = _counts(table, row, DURING)
        ended = "it had ended"
        both = (words, ended) if table is first else (ended, words)
        return Parting(int(table["step"][row]), float(table["start_s"][row]), *both, source)
    return Parting(None, None, "", "", source)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                step = json.loads(line)
                if not isinstance(step, dict) or not {"step", "start_s"} <= step.keys():
                    raise RunError(f"{path}: line {number}: not a step")
                yield step
    except (OSError, EOFError) as error:
        raise RunError(f"{path}: {reason(error) if isinstance(error, OSError) else 'cut off'}") from error
    except json.JSONDecodeError as error:
        raise RunError(f"{path}: line {number}: {error.msg}") from error


def _alike(a: Any, b: Any) -> bool:
    """Equal, of mappings in order too: who was given tokens first is a decision."""
    return bool(a == b) and (not isinstance(a, Mapping) or list(a) == list(b))


def _only(mine: Mapping[str, Any], other: Mapping[str, Any], keys: list[str]) -> str:
    """What one did in these respects, of long lists only what the other did not."""
    parts = []
    for key in keys:
        here, there = mine.get(key), other.get(key)
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            own = {name: value for name, value in here.items() if there.get(name) != value} or here
            parts.append(f"{key} {_named(own)}")
        elif isinstance(here, list) and isinstance(there, list):
            parts.append(f"{key} {_named([name for name in here if name not in there])}")
        else:
            parts.append(f"{key} {here}")
    return "; ".join(parts)


def _did(step: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "; ".join(f"{key} {_named(step[key])}" for key in keys if step.get(key))


def _named(values: Any) -> str:
    if not values:
        return "nobody"
    words = [f"{name}: {value}" for name, value in values.items()] if isinstance(values, Mapping) else list(map(str, values))
    more = f" and {len(words) - MOST} more" if len(words) > MOST else ""
    return ", ".join(words[:MOST]) + more


def _counts(table: Table, row: int, names: Any) -> str:
    return "; ".join(f"{name} {table[name][row]:,.12g}" for name in names)
