"""From the log of the recording scheduler to the files of a recorded run (docs/ground_truth.md)."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.ground_truth.live.scheduler import FLUSH
from engine.ground_truth.names import Names

Row = dict[str, Any]
REQUESTS = (
    "request_id", "arrival_s", "added_s", "prompt_tokens", "output_tokens", "first_token_s", "finish_s", "preemptions",
    "cached_tokens", "client_first_token_s", "client_finish_s", "predicted_output", "user", "session", "priority",
    "deadline_s",
)  # fmt: skip


class LogError(ValueError):
    """The log does not hold what was asked of it; one line."""


def write_run(folder: Path, log: Mapping[str, Any], asked: Sequence[Row], t0_s: float, settings: Row) -> None:
    """`asked`: the requests, with what the client saw of each; `t0_s`: when the run began, on the log's clock."""
    names = Names((row["id"] for row in asked), _not_sent)
    added = {names.of(name): time_s - t0_s for name, time_s in log["added"].items() if not name.startswith(FLUSH)}
    steps = [_renamed(step, names, t0_s) for step in log["steps"] if not _is_flush(step)]
    if added.keys() != {row["id"] for row in asked}:
        raise LogError(f"{len(asked)} requests were sent, and the scheduler was given {len(added)}")
    prompts = {row["id"]: len(row["prompt_ids"]) for row in asked}
    folder.mkdir(parents=True, exist_ok=True)
    _csv(folder / "requests.csv", REQUESTS, sorted((_request(row, added, steps) for row in asked), key=_added))
    rows = [_step(number, steps, prompts) for number in range(len(steps))]
    _csv(folder / "steps.csv", tuple(rows[0]), rows)
    _jsonl(
        folder / "parts.jsonl",
        ({"step": number} | {name: step[name] for name in ("parts", "admitted", "preempted", "free_blocks")}
         for number, step in enumerate(steps)),
    )  # fmt: skip
    _jsonl(folder / "prompts.jsonl", ({"request_id": row["id"], "prompt_ids": row["prompt_ids"]} for row in asked))
    blocks = {"num_gpu_blocks": log["num_gpu_blocks"], "usable_blocks": log["num_gpu_blocks"] - 1}
    counts = {"requests": len(asked), "steps": len(steps), "preemptions": sum(len(step["preempted"]) for step in steps)}
    _whole(folder / "meta.json", json.dumps(settings | blocks | counts, indent=1) + "\n")


def _is_flush(step: Row) -> bool:
    return any(str(part[0]).startswith(FLUSH) for part in step["parts"])


def _not_sent(name: str) -> LogError:
    return LogError(f"the scheduler was given a request {name} that nobody has sent")


def _renamed(step: Row, names: Names, t0_s: float) -> Row:
    stamps = {name: step[name] - t0_s for name in ("start_s", "planned_s", "computed_s", "end_s")}
    lists = {name: [names.of(each) for each in step[name]] for name in ("admitted", "preempted", "tokens")}
    return step | stamps | lists | {"parts": [[names.of(name), *rest] for name, *rest in step["parts"]]}


def _request(row: Row, added: Mapping[str, float], steps: Sequence[Row]) -> Row:
    name = row["id"]
    ends = [step["end_s"] for step in steps if name in step["tokens"]]
    if len(ends) != row["output_tokens"]:
        raise LogError(f"request {name}: {row['output_tokens']} tokens were asked for, and {len(ends)} came")
    first = next(part for step in steps for part in step["parts"] if part[0] == name)
    return row | {
        "request_id": name,
        "added_s": added[name],
        "prompt_tokens": len(row["prompt_ids"]),
        "first_token_s": ends[0],
        "finish_s": ends[-1],
        "preemptions": sum(name in step["preempted"] for step in steps),
        "cached_tokens": first[2],
    }


def _added(row: Row) -> float:
    """What the engine was given first comes first, also where the table's digits do not tell."""
    time_s: float = row["added_s"]
    return time_s


def _step(number: int, steps: Sequence[Row], prompts: Mapping[str, int]) -> Row:
    step = steps[number]
    prefill = [part for part in step["parts"] if part[2] < prompts[part[0]] or part[1] > 1]
    decode = [part for part in step["parts"] if part[2] >= prompts[part[0]] and part[1] == 1]
    return {
        "step": number,
        "start_s": step["start_s"],
        "end_s": step["end_s"],
        "schedule_s": step["planned_s"] - step["start_s"],
        "model_s": step["computed_s"] - step["planned_s"],
        "update_s": step["end_s"] - step["computed_s"],
        "gap_before_s": step["start_s"] - steps[number - 1]["end_s"] if number else 0.0,
        "sequences": len(step["parts"]),
        "prefill_seqs": len(prefill),
        "prefill_tokens": sum(part[1] for part in prefill),
        "decode_seqs": len(decode),
        "decode_tokens": len(decode),
        "prefill_ctx": sum(part[1] * (part[2] + part[1] / 2) for part in prefill),
        "decode_context": sum(part[2] + 1 for part in decode),
        "context_tokens": sum(part[1] + part[2] for part in step["parts"]),
        "admitted": len(step["admitted"]),
        "preempted": len(step["preempted"]),
        "waiting": step["waiting"],
        "running": step["running"],
        "free_blocks": step["free_blocks"],
    }


def _csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with open(f"{path}.part", "w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        for row in rows:
            lines.writerow([_cell(row.get(name)) for name in columns])
    os.replace(f"{path}.part", path)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9f}"
    return "" if value is None else value


def _jsonl(path: Path, rows: Iterable[Row]) -> None:
    _whole(path, "".join(json.dumps(row) + "\n" for row in rows))


def _whole(path: Path, text: str) -> None:
    """All of it, or nothing under this name."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.part", path)
