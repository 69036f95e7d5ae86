"""ShareGPT: conversations as a JSON array (or JSONL) of {id, conversations: [{from: human, value: ...}, ...]}.

Source: huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered, and files of its form. An answer makes a
request: its prompt is all of the conversation before it. The file has no times and no lengths in tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from traces.readers.cells import first_keys
from traces.readers.content import Ragged
from traces.readers.documents import values
from traces.readers.lengths import counter, text_of
from traces.readers.reader import Columns, Reader, assembled, gathered
from traces.readers.rows import Rows
from traces.readers.source import Source
from traces.trace import Report, Trace

LISTS = ("conversations", "conversation", "items", "messages")
ANSWERS = ("gpt", "chatgpt", "assistant", "bing", "bard")
CONVERSATIONS_AT_ONCE = 1_000
HASH_BLOCK_TOKENS = 16
UNTIMED = "the file has no times: all arrive at once, or evenly at trace.rate"


def read(source: Source, rows: Rows, report: Report, *, tokenizer: str | None = None, turns: str = "all") -> Trace:
    """The trace: `turns` = all makes a session of each conversation, whose turns share what was said before; `first` takes
    the first answer of each alone, as vLLM's benchmark does. `tokenizer` counts tokens, else see `lengths`."""
    if turns not in ("all", "first"):
        raise ValueError(f"trace.turns={turns}: allowed are all, first")
    count, note = counter(tokenizer)
    conversations = Conversations(count, turns == "first", rows)
    columns = gathered(rows, conversations.chunks(values(source)))
    report.drop("conversations without an answer to something", conversations.empty)
    report.notes += [note, UNTIMED]
    report.timed = False
    return assembled(rows, report, columns, HASH_BLOCK_TOKENS)


class Conversations:
    """Conversations become requests here; content ids are numbered through the file."""

    def __init__(self, count: object, first: bool, rows: Rows) -> None:
        self.count, self.first, self.rows = count, first, rows
        self.next_id = 0
        self.seen = 0
        self.empty = 0

    def chunks(self, entries: Iterator[tuple[int, object]]) -> Iterator[Columns]:
        """Some conversations after the other."""
        while some := list(islice(entries, CONVERSATIONS_AT_ONCE)):
            yield self.converted(some)

    def converted(self, entries: list[tuple[int, object]]) -> Columns:
        """Some conversations."""
        lines: list[int | str] = []
        sizes: list[tuple[int, int]] = []
        turn: list[int] = []
        session: list[str] = []
        content: list[range] = []
        for line, entry in entries:
            self.seen += 1
            try:
                requests = self.requests(entry)
            except ValueError as problem:
                self.rows.reject(len(lines), str(problem))
                requests = [(1, 1)]
            self.empty += not requests
            lines += [line] * len(requests)
            sizes += requests
            turn += range(1, len(requests) + 1)
            session += [str(self.seen)] * len(requests)
            shared = [prompt // HASH_BLOCK_TOKENS if len(requests) > 1 else 0 for prompt, _ in requests]
            content += [range(self.next_id, self.next_id + blocks) for blocks in shared]
            self.next_id += max(shared, default=0)
        self.rows.lines = lines
        table = np.array(sizes, np.int64).reshape(-1, 2)
        columns: Columns = {
            "arrival_s": np.zeros(len(lines)),
            "prompt_tokens": table[:, 0],
            "output_tokens": table[:, 1],
        }
        if not self.first:
            columns |= {"session": session, "turn": np.array(turn, np.int64), "content": Ragged.of(content)}
        return columns

    def requests(self, entry: object) -> list[tuple[int, int]]:
        """(prompt, output) in tokens of each answer of a conversation; answers to nothing make none."""
        messages = next((entry[name] for name in LISTS if name in entry), None) if isinstance(entry, dict) else None
        if not isinstance(messages, list):
            raise ValueError(f"a conversation must be an object with a list {LISTS[0]}")
        found: list[tuple[int, int]] = []
        before = 0
        for message in messages:
            if not isinstance(message, dict):
                raise ValueError(f"a message must be an object, is {str(message)[:40]!r}")
            text = text_of(message.get("value", message.get("content")))
            tokens = self.count(text)  # type: ignore[operator]
            if message.get("from", message.get("role")) in ANSWERS and before and tokens:
                found.append((before, tokens))
                if self.first:
                    break
            before += tokens
        return found


def recognises(source: Source) -> bool:
    """Whether a text begins with a conversation."""
    keys = first_keys(source)
    return bool(keys & {"conversations", "conversation"}) or ("items" in keys and "id" in keys)


READER = Reader("sharegpt", "ShareGPT JSON", recognises, read)
