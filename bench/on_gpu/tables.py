"""The files of a run: a CSV file a table, one JSON with everything else, a summary; each whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.on_gpu.items import Outcome
from twin.results.atomic import writing

JSON, SUMMARY = "results.json", "summary.md"
DRY = "dry run on a CPU"
COLUMNS: dict[str, dict[str, str]] = {  # table -> column -> unit and meaning
    "build": {"compiler": "", "of": "", "seconds": "s, while others were building too"},
    "checks": {
        "check": "", "of": "", "verdict": "passed, failed, not here", "error": "largest |difference| / (1 + |expected|)",
        "allowed": "of it", "seconds": "s", "why": "not passed",
    },
    "bandwidth": {
        "batch": "sequences", "context": "tokens of each", "group": "query heads a KV head", "head_dim": "", "kv_dtype": "",
        "kv_heads": "", "backend": "attention=", "how": "graph: replayed from a CUDA graph; eager: launched one by one",
        "kv_gb": "10^9 bytes of keys and values, one layer", "layers": "read in one timing",
        "median_us": "us a layer", "gb_s": "kv_gb a second", "copy_gb_s": "read and written by a copy on the device",
        "of_copy": "gb_s / copy_gb_s", "differs_by": "largest difference from another back end / largest value",
        "why": "not measured",
    },
    "decode": {
        "model": "", "layers": "", "attention": "", "batch": "sequences", "context": "tokens of each",
        "how": "graph or eager", "weights_gb": "10^9 bytes that a step reads", "kv_gb": "10^9 bytes that a step reads",
        "copy_gb_s": "read and written by a copy on the device", "roofline_ms": "(weights_gb + kv_gb) / copy_gb_s",
        "step_ms": "from the preparation on the host to the tokens on the host", "device_ms": "of it, between two events",
        "tokens_s": "batch / step_ms", "of_roofline": "roofline_ms / step_ms",
        "device_of_roofline": "roofline_ms / device_ms",
        "why": "not measured",
    },
    "swap": {
        "way": "out to the host, in from it", "run_blocks": "consecutive blocks", "copies": "that cross the link",
        "block_bytes": "", "gb": "10^9 bytes moved", "median_ms": "until the device is idle", "gb_s": "gb / median_ms",
        "plain_gb_s": "of a copy in one piece", "of_plain": "gb_s / plain_gb_s", "pinned": "the host's memory",
    },
}  # fmt: skip


def write_all(folder: Path, about: Mapping[str, Any], outcomes: list[Outcome], summary: str) -> None:
    """Raises twin.results.atomic.OutputError."""
    for table in COLUMNS:
        rows = [row for outcome in outcomes for row in outcome.rows(table)]
        _write(folder / f"{table}.csv", as_csv(table, rows, str(about["device"])))
    _write(folder / JSON, json.dumps({**about, **_described(outcomes)}, indent=2) + "\n")
    _write(folder / SUMMARY, summary)


def as_csv(table: str, rows: list[dict[str, Any]], device: str) -> str:
    """The first column says on which device, so that a table without its JSON is no riddle."""
    unknown = {name for row in rows for name in row} - set(COLUMNS[table])
    assert not unknown, f"{table}: no column {unknown}"
    text = io.StringIO(newline="")
    lines = csv.DictWriter(text, ["device", *COLUMNS[table]], lineterminator="\n")
    lines.writeheader()
    lines.writerows({"device": device, **row} for row in rows)
    return text.getvalue()


def _described(outcomes: list[Outcome]) -> dict[str, Any]:
    sections = {
        outcome.name: {
            "state": outcome.state, "allotted_s": round(outcome.allotted_s, 3), "seconds": round(outcome.seconds, 3),
            "parts": [asdict(part) for part in outcome.parts], "notes": outcome.notes,
        }
        for outcome in outcomes
    }  # fmt: skip
    return {"sections": sections, "columns": COLUMNS}


def _write(path: Path, text: str) -> None:
    with writing(path) as handle:
        handle.write(text.encode())
