"""Qwen-Bailian: JSONL with chat_id, parent_chat_id, timestamp (s), input_length, output_length, type, turn, hash_ids.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon (Apache-2.0); Wang et al., "KVCache Cache in the Wild",
USENIX ATC 2025. An id stands for a block of 16 tokens and all before it. parent_chat_id is the turn before, or -1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traces.readers.cells import first_keys, jsonl_cells, named_columns
from traces.readers.content import Content
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Cells, Rows
from traces.readers.sessions import number_turns
from traces.readers.source import Source
from traces.trace import Report, Trace

REQUIRED = ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids")
COLUMNS = (*REQUIRED, "turn")
HASH_BLOCK_TOKENS = 16


def read(source: Source, rows: Rows, report: Report) -> Trace:
    """The trace. A session is named by its first chat; one whose first turns are not in the file, by the first that is."""
    unknown: dict[str, None] = {}
    content = Content("hash_ids", HASH_BLOCK_TOKENS, whole=False)
    chunks = jsonl_cells(source, rows, COLUMNS, REQUIRED, "a Bailian row", unknown)
    columns = gathered(rows, (converted(cells, rows, content) for cells in chunks), {"turn": 0})
    report.notes += named_columns(unknown)
    chats, parents = np.asarray(columns.pop("chat")), np.asarray(columns.pop("parent"))
    columns["session"] = [str(first) for first in first_chats(chats.tolist(), parents.tolist())]
    number_turns(columns, report)
    return assembled(rows, report, columns, HASH_BLOCK_TOKENS)


def converted(cells: Mapping[str, Cells], rows: Rows, content: Content) -> Columns:
    """Some rows."""
    prompt_tokens = rows.integers("input_length", cells["input_length"], least=1)
    columns: Columns = {
        "arrival_s": rows.seconds("timestamp", cells["timestamp"]),
        "prompt_tokens": prompt_tokens,
        "output_tokens": rows.integers("output_length", cells["output_length"], least=0),
        "chat": rows.integers("chat_id", cells["chat_id"], least=0),
        "parent": rows.integers("parent_chat_id", cells["parent_chat_id"], least=-1),
        "content": content.column(cells["hash_ids"], rows, prompt_tokens),
    }
    if "turn" in cells:
        columns["turn"] = rows.integers("turn", cells["turn"], least=0, absent=0)
    return columns


def first_chats(chats: list[int], parents: list[int]) -> list[int]:
    """For each chat the one with which its session began; a parent counts if it is above its child in the file."""
    first: dict[int, int] = {}
    for chat, parent in zip(chats, parents, strict=True):
        first[chat] = first.get(parent, chat)
    return [first[chat] for chat in chats]


READER = Reader("bailian", "Qwen-Bailian JSONL", lambda source: {"chat_id", "parent_chat_id"} <= first_keys(source), read)
