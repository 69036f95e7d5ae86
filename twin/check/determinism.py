"""Same seed, same bytes: twice in one process, and in processes whose strings have other hashes."""

from __future__ import annotations

from typing import Any

from twin.check.playing import DECISIONS, first_unlike, in_words, play
from twin.check.result import Result, Tell
from twin.check.subject import Subject
from twin.check.systems import random_system

HASH_SEEDS = ("0", "1", "2")  # of PYTHONHASHSEED, a process each
SYSTEMS, QUICK_SYSTEMS = 10, 5
Rows = list[dict[str, Any]]


def contents(subject: Subject, quick: bool) -> dict[str, dict[str, Any]]:
    """The systems played: random ones of their own, and one that is crowded, with many users."""
    names = [f"repeated-{number}" for number in range(QUICK_SYSTEMS if quick else SYSTEMS)]
    systems = {name: random_system(name) for name in names} | {"crowd": _crowd()}
    return {name: subject.adapted(content) for name, content in systems.items()}


def _crowd() -> dict[str, Any]:
    requests = [
        {"id": f"request-{n}", "arrival_s": n // 20, "prompt_tokens": 5 + 7 * n % 40, "output_tokens": 4 + 5 * n % 23,
         "user": f"user-{n * 7 % 11}", "session": f"session-{n % 5}", "priority": n % 3}
        for n in range(60)
    ]  # fmt: skip
    return {
        "cache": {"num_gpu_blocks": 18, "block_size": 16, "num_cpu_blocks": 20},
        "scheduler": {"max_num_seqs": 6, "max_num_batched_tokens": 128},
        "latency": {"base_s": 0.5},
        "requests": requests,
    }


def rows(subject: Subject, quick: bool, tell: Tell) -> dict[str, Rows]:
    """What is decided in each system, for another process to be compared with; an error is a row of its own."""
    logs = {}
    for name, content in contents(subject, quick).items():
        tell(name, content)
        logs[name] = _kept(play(subject, content).rows)
    return logs


def check(subject: Subject, quick: bool, tell: Tell) -> tuple[Result, dict[str, Rows]]:
    """All systems one after another, then all again; also what was decided the first time."""
    first = rows(subject, quick, tell)
    result = Result("repeated in a process", cases=len(first))
    again = rows(subject, quick, tell)
    systems = contents(subject, quick)
    for name, mine in first.items():
        unlike = _unlike(mine, again[name])
        if unlike is not None:
            why = "something is left over from run to run: in attributes of the class, or globals of the module"
            message = f"it decides otherwise when it is run again in the same process, {unlike}; {why}"
            result.fail(message, name, systems[name])
            break
    return result, first


def compared(logs: list[tuple[str, dict[str, Rows]]]) -> Result:
    """Processes with other hash seeds against the first."""
    label, first = logs[0]
    result = Result("other processes", cases=len(first) * len(logs))
    for other, theirs in logs[1:]:
        for name, mine in first.items():
            if (unlike := _unlike(mine, theirs[name])) is not None:
                why = "does an order depend on that of a set, on hash() or on id()? Sort it, or keep a dict"
                result.fail(f"its decisions depend on the process: {other} against {label}, {unlike}; {why}", name)
                return result
    return result


def _unlike(mine: Rows, theirs: Rows) -> str | None:
    place = first_unlike(mine, theirs)
    return None if place is None else f"step {place + 1}: {in_words(mine, place)}, then {in_words(theirs, place)}"


def _kept(rows: Rows) -> Rows:
    return [{key: row[key] for key in DECISIONS} for row in rows]
