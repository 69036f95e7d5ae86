"""From folders to recordings. A run is a folder with its files; a folder of such folders is several runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.ground_truth.files import (
    PARTS,
    PROMPTS,
    REQUESTS,
    SETTINGS,
    STEPS,
    WHAT,
    Line,
    count,
    csv_lines,
    found,
    given,
    json_lines,
    json_object,
    number,
    seconds,
)
from engine.ground_truth.names import Names
from engine.ground_truth.recording import Part, RecordedRequest, RecordedStep, Recording, RecordingError, Settings
from twin.core.limits import Limits

REQUEST_COLUMNS = (
    "request_id", "arrival_s", "added_s", "prompt_tokens", "output_tokens", "first_token_s", "finish_s",
)  # fmt: skip
STEP_COLUMNS = ("start_s", "end_s", "waiting", "running")
ABOUT = ("model", "dtype", "vllm", "torch", "enforce_eager", "threads", "device", "clock")  # that step times depend on


def read_recordings(folders: Sequence[Path]) -> list[Recording]:
    """All runs of these folders, by name. Raises RecordingError, one line, for what is none, or is cut off."""
    runs: list[Recording] = []
    for folder in folders:
        if not folder.is_dir():
            raise RecordingError(f"{folder}: no such folder; it must hold a recorded run, or folders of them")
        here = found(folder)
        if here:
            runs.append(_read(folder, here))
            continue
        inner = [(path, files) for path in sorted(folder.iterdir()) if path.is_dir() and (files := found(path))]
        if not inner:
            raise RecordingError(f"{folder}: no recorded run in it; a run is a folder with files of {', '.join(WHAT)}")
        runs += [_read(path, files) for path, files in inner]
    for place, run in enumerate(runs):
        same = next((other for other in runs[:place] if other.name == run.name), None)
        if same is not None:
            raise RecordingError(f"{same.folder} and {run.folder}: two runs of one name; give one of them another")
    return runs


def _read(folder: Path, files: dict[str, Path]) -> Recording:
    missing = [words for kind, words in WHAT.items() if kind not in files]
    if missing:
        raise RecordingError(f"{folder}: no file of {' and none of '.join(missing)}")
    settings = _settings(files[SETTINGS])
    prompts = _prompts(files[PROMPTS]) if PROMPTS in files else {}
    requests = _requests(files[REQUESTS], {name: ids for name, ids in prompts.items() if ids is not None})
    untold = [request.id for request in requests if prompts and request.id not in prompts]
    if untold:
        raise RecordingError(f"{files[PROMPTS]}: says nothing of request {untold[0]}; is the file cut off?")
    if settings.limits.enable_prefix_caching and not all(request.prompt_ids for request in requests):
        raise RecordingError(
            f"{folder}: prefix caching was on, and not every request has its prompt_ids in a file of prompts: without "
            f"them nobody knows what was cached"
        )
    steps = _steps(files[STEPS], files[PARTS], {request.id for request in requests})
    return Recording(folder.resolve().name, str(folder), settings, tuple(requests), tuple(steps))


def _settings(path: Path) -> Settings:
    content = json_object(path)
    line = Line(content, str(path))
    needed = ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    missing = [name for name in needed if not given(line, name)]
    if missing:
        raise RecordingError(f"{path}: says nothing of {', '.join(missing)}")
    if given(line, "usable_blocks"):
        blocks = count(line, "usable_blocks", 1)
    elif given(line, "num_gpu_blocks"):
        blocks = count(line, "num_gpu_blocks", 2) - 1  # vLLM's null block is among them
    else:
        raise RecordingError(f"{path}: says nothing of usable_blocks (num_gpu_blocks less vLLM's null block)")
    optional = {
        "long_prefill_token_threshold": count(line, "long_prefill_token_threshold")
        if given(line, "long_prefill_token_threshold")
        else 0,
        "watermark": number(line, "watermark") if given(line, "watermark") else 0.0,
        "enable_chunked_prefill": _switch(line, ("enable_chunked_prefill",), True),
        "enable_prefix_caching": _switch(line, ("prefix", "enable_prefix_caching"), False),
    }
    try:
        limits = Limits(num_blocks=blocks, **{name: count(line, name, 1) for name in needed}, **optional)  # type: ignore[arg-type]
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from None
    policy = content.get("policy", "fcfs")
    if isinstance(policy, str):
        policy = {"name": policy}
    if not isinstance(policy, dict) or not isinstance(policy.get("name"), str):
        raise RecordingError(f"{path}: policy must be a name, or an object with name and parameters")
    version = content.get("vllm")
    about = {name: content[name] for name in ABOUT if content.get(name) is not None}
    asynchronous = _switch(line, ("async_scheduling",), False)
    return Settings(limits, asynchronous, None if version is None else str(version), policy, about)


def _switch(line: Line, names: tuple[str, ...], default: bool) -> bool:
    """The first of the names that is there."""
    for name in names:
        if line.values.get(name) is not None:
            value = line.values[name]
            if not isinstance(value, bool):
                raise RecordingError(f"{line.place}: {name} must be true or false, not {value!r}")
            return value
    return default


def _prompts(path: Path) -> dict[str, list[int] | None]:
    """By request; None where only its length was kept."""
    prompts: dict[str, list[int] | None] = {}
    for line in json_lines(path):
        ids = line.values.get("prompt_ids")
        if ids is not None and (not isinstance(ids, list) or not all(type(token) is int for token in ids)):
            raise RecordingError(f"{line.place}: prompt_ids must be a list of token ids")
        prompts[str(line.values.get("request_id"))] = ids
    return prompts


def _requests(path: Path, prompts: dict[str, list[int]]) -> list[RecordedRequest]:
    """In the order in which the engine was given them; of those of one moment as the file has them."""
    rows: dict[str, RecordedRequest] = {}
    for line in csv_lines(path, REQUEST_COLUMNS, REQUESTS):
        row = _request(line, prompts)
        if row.id in rows:
            raise RecordingError(f"{line.place}: a second request {row.id}")
        rows[row.id] = row
    if not rows:
        raise RecordingError(f"{path}: no requests")
    return sorted(rows.values(), key=lambda row: row.added_s)


def _request(line: Line, prompts: dict[str, list[int]]) -> RecordedRequest:
    name = str(line.values["request_id"])
    if not name:
        raise RecordingError(f"{line.place}: request_id is empty")
    stamps = {column: seconds(line, column) for column in ("arrival_s", "added_s", "first_token_s", "finish_s")}
    for earlier, later in (("arrival_s", "first_token_s"), ("added_s", "first_token_s"), ("first_token_s", "finish_s")):
        if stamps[earlier] > stamps[later]:
            raise RecordingError(
                f"{line.place}: {later} {stamps[later]:g} is before {earlier} {stamps[earlier]:g}; "
                f"are all times on one clock?"
            )
    prompt_tokens, ids = count(line, "prompt_tokens", 1), prompts.get(name)
    if ids is not None and len(ids) != prompt_tokens:
        raise RecordingError(
            f"{line.place}: prompt_tokens is {prompt_tokens}, the file of prompts has {len(ids)} ids of {name}"
        )
    return RecordedRequest(
        name,
        **stamps,
        prompt_tokens=prompt_tokens,
        output_tokens=count(line, "output_tokens", 1),
        preemptions=count(line, "preemptions") if given(line, "preemptions") else None,
        cached_tokens=count(line, "cached_tokens") if given(line, "cached_tokens") else None,
        prompt_ids=ids,
        predicted_output=number(line, "predicted_output") if given(line, "predicted_output") else None,
        user=str(line.values["user"]) if given(line, "user") else None,
        session=str(line.values["session"]) if given(line, "session") else None,
        priority=int(number(line, "priority")) if given(line, "priority") else 0,
        deadline_s=seconds(line, "deadline_s") if given(line, "deadline_s") else None,
    )


def _steps(table: Path, parts: Path, requests: set[str]) -> list[RecordedStep]:
    rows = list(csv_lines(table, STEP_COLUMNS, STEPS))
    lines = list(json_lines(parts))
    if len(rows) != len(lines):
        raise RecordingError(f"{table} has {len(rows)} steps, {parts} has {len(lines)}; one of them is cut off")
    if not rows:
        raise RecordingError(f"{table}: no steps")
    steps: list[RecordedStep] = []
    for row, line in zip(rows, lines, strict=True):
        start_s, end_s = seconds(row, "start_s"), seconds(row, "end_s")
        if end_s <= start_s:
            raise RecordingError(f"{row.place}: the step ends at {end_s:g} s, and begins at {start_s:g} s")
        if steps and start_s < steps[-1].start_s:
            raise RecordingError(f"{row.place}: the step begins at {start_s:g} s, before the one above it")
        names = Names(requests, partial(_unknown, line.place))
        steps.append(
            RecordedStep(
                start_s,
                end_s,
                tuple(Part(names.of(str(part[0])), part[1], part[2]) for part in _parts(line)),
                tuple(names.of(str(name)) for name in _list(line, "admitted")),
                frozenset(names.of(str(name)) for name in _list(line, "preempted")),
                count(line if given(line, "free_blocks") else _with_blocks(row, line), "free_blocks"),
                count(row, "waiting"),
                count(row, "running"),
            )
        )
    return steps


def _unknown(place: str, name: str) -> RecordingError:
    return RecordingError(f"{place}: there is no request {name!r} in the table of requests")


def _with_blocks(row: Line, line: Line) -> Line:
    if not given(row, "free_blocks"):
        raise RecordingError(f"{line.place}: free_blocks is missing, in the file of steps too")
    return row


def _list(line: Line, name: str) -> list[Any]:
    value = line.values.get(name)
    if not isinstance(value, list):
        raise RecordingError(f"{line.place}: {name} must be a list, not {value!r}")
    return value


def _parts(line: Line) -> list[Any]:
    parts = _list(line, "parts")
    for part in parts:
        right = isinstance(part, list) and len(part) == 3 and type(part[1]) is int and type(part[2]) is int
        if not right or part[1] < 1 or part[2] < 0:
            raise RecordingError(f"{line.place}: a part is [request, tokens, computed before], not {part!r}")
    return parts
