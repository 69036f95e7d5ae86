"""tokens.jsonl.gz: what came out, a sequence a line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from engine.beam_searches import BeamSearch
from engine.sequences import Sequence
from twin.core.request import Request
from twin.results.atomic import writing

NAME = "tokens.jsonl.gz"


class Tokens:
    """Gathered while a run goes on, written when it is over."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, dict[str, object]]] = []  # row of the trace, number of the sample

    def add(self, request: Request, sequence: Sequence, search: BeamSearch | None) -> None:
        """An executor's `on_end`."""
        line: dict[str, object] = {"request_id": request.id, "status": request.state, "reason": request.reason}
        line |= {"prompt_tokens": sequence.prompt_tokens, "tokens": sequence.generated}
        if search is not None:
            line["hypotheses"] = [{"tokens": list(each.tokens), "score": each.score} for each in search.hypotheses()]
        number = request.siblings.index(request) if request.siblings else 0
        self.lines.append((request.index, number, line))

    def write(self, folder: Path) -> None:
        """In the order of the trace. Raises `OutputError`."""
        with writing(folder / NAME) as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
            for *_, line in sorted(self.lines, key=lambda entry: entry[:2]):
                packed.write((json.dumps(line) + "\n").encode())
