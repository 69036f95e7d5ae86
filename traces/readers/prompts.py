"""Prompts without answers: OpenAI batch files, and the custom dataset of vLLM's benchmark; both JSONL.

Sources: platform.openai.com/docs/guides/batch: {custom_id, method, url, body: {messages | prompt, max_tokens, n}}, with
max_completion_tokens for max_tokens in newer ones; github.com/vllm-project/vllm, vllm/benchmarks/datasets.py, v0.11:
{prompt, output_tokens}. The files have no times. How long the answers are they tell at most: max_tokens stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from traces.readers.cells import first_keys, jsonl_objects
from traces.readers.lengths import counter, text_of
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows
from traces.readers.sharegpt import UNTIMED
from traces.readers.source import Source
from traces.trace import Report, Trace

Count = Callable[[str], int]
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
NO_LENGTH = "tells no length of the answer: give trace.output_tokens"


def read_batch(
    source: Source, rows: Rows, report: Report, *, tokenizer: str | None = None, output_tokens: int | None = None
) -> Trace:
    """An OpenAI batch. Answers are as long as max_tokens allows, else `output_tokens`."""
    report.notes.append("answers are taken to be as long as max_tokens allows; the file does not tell their lengths")
    return read(source, rows, report, tokenizer, output_tokens, batch_row)


def read_dataset(
    source: Source, rows: Rows, report: Report, *, tokenizer: str | None = None, output_tokens: int | None = None
) -> Trace:
    """A custom dataset of vLLM. Answers have the output_tokens of the row, else `output_tokens`."""
    return read(source, rows, report, tokenizer, output_tokens, dataset_row)


def read(
    source: Source, rows: Rows, report: Report, tokenizer: object, output_tokens: object, row: Callable[..., dict]
) -> Trace:
    """The trace of what `row` finds in each object."""
    if output_tokens is not None and (
        isinstance(output_tokens, bool) or not isinstance(output_tokens, int) or output_tokens < 1
    ):
        raise ValueError(f"trace.output_tokens is {output_tokens}, must be an integer of at least 1")
    count, note = counter(tokenizer)

    def chunks() -> Iterator[Columns]:
        for objects in jsonl_objects(source, rows):
            found: list[dict] = []
            for place, entry in enumerate(objects):
                try:
                    found.append(row(entry, count) if place not in rows.problems else {})
                except ValueError as problem:
                    rows.reject(place, str(problem))
                    found.append({})
            yield converted(found, rows, output_tokens)

    columns = gathered(rows, chunks(), {"max_tokens": -1, "request_id": "", "n": 1})
    report.notes += [note, UNTIMED]
    report.timed = False
    return assembled(rows, report, columns)


def converted(found: list[dict], rows: Rows, output_tokens: object) -> Columns:
    """Some rows."""
    outputs = [entry.get("output", output_tokens) for entry in found]
    for place in (place for place, output in enumerate(outputs) if output is None):
        rows.reject(place, NO_LENGTH)
    columns: Columns = {
        "arrival_s": np.zeros(len(found)),
        "prompt_tokens": rows.integers("the prompt", [entry.get("prompt") for entry in found], least=1),
        "output_tokens": rows.integers("the length of the answer", outputs, least=1),
    }
    if any("id" in entry for entry in found):
        columns["request_id"] = rows.texts("custom_id", [entry.get("id") for entry in found])
    if any("limit" in entry for entry in found):
        limits = [entry.get("limit") for entry in found]
        columns["max_tokens"] = rows.integers("max_tokens", limits, least=1, absent=-1)
    if any("n" in entry for entry in found):
        columns["n"] = rows.integers("n", [entry.get("n") for entry in found], least=1, absent=1)
    return columns


def batch_row(entry: dict, count: Count) -> dict:
    """A line of an OpenAI batch."""
    body = entry.get("body")
    if not isinstance(body, dict):
        raise ValueError("body must be an object")
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, list):
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("messages must be a list of objects")
        prompt = sum(count(text_of(message.get("content"))) for message in messages)
    else:
        prompt = length_of(messages if messages is not None else body.get("prompt"), count)
    row: dict = {"prompt": prompt, "id": entry.get("custom_id")}
    limit = next((body[name] for name in LIMITS if body.get(name) is not None), None)
    if limit is not None:
        row |= {"output": limit, "limit": limit}
    if body.get("n") is not None:
        row["n"] = body["n"]
    return row


def dataset_row(entry: dict, count: Count) -> dict:
    """A line of a custom dataset."""
    row: dict = {"prompt": length_of(entry.get("prompt"), count)}
    if entry.get("output_tokens") is not None:
        row["output"] = entry["output_tokens"]
    return row


def length_of(prompt: object, count: Count) -> int:
    """Tokens of a prompt: a text, or a list of token ids."""
    if isinstance(prompt, str):
        return count(prompt)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return len(prompt)
    raise ValueError("the prompt must be text or a list of token ids")


def is_dataset(source: Source) -> bool:
    """Whether a text begins with a row of a custom dataset, and not with one that says when it arrives."""
    keys = first_keys(source)
    return "prompt" in keys and not keys & {"arrival_s", "prompt_tokens", "body"}


BATCH = Reader("openai_batch", "OpenAI batch JSONL", lambda source: {"custom_id", "body"} <= first_keys(source), read_batch)
DATASET = Reader("vllm_dataset", "vLLM custom dataset JSONL", is_dataset, read_dataset)
