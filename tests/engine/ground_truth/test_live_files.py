"""From the log of the recording scheduler to a recorded run: calculated by hand, and replayed."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.ground_truth.live.recorder_files import LogError, write_run
from engine.ground_truth.lockstep import lockstep
from engine.ground_truth.reading import read_recordings
from tests.engine.ground_truth.small import SETTINGS


def step(start_s: float, parts: list[list[Any]], tokens: list[str], admitted: list[str], free_blocks: int, running: int):
    return {
        "start_s": 100 + start_s, "planned_s": 100.001 + start_s, "computed_s": 100.009 + start_s, "end_s": 100.01 + start_s,
        "parts": parts, "admitted": admitted, "preempted": [], "waiting": 0, "running": running, "free_blocks": free_blocks,
        "tokens": tokens,
    }  # fmt: skip


def log() -> dict[str, Any]:
    """A of 6 tokens and 2 of B's 6 in a step of 8; vLLM's names have suffixes; the run begins at 100 s of its clock."""
    return {
        "num_gpu_blocks": 9,
        "added": {"A-0-77": 100.004, "B-0-78": 100.005, "twin-flush-1": 100.2},
        "steps": [
            step(0.01, [["A-0-77", 6, 0], ["B-0-78", 2, 0]], ["A-0-77"], ["A-0-77", "B-0-78"], 5, 2),
            step(0.03, [["A-0-77", 1, 6], ["B-0-78", 4, 2]], ["A-0-77", "B-0-78"], [], 4, 2),
            step(0.2, [["twin-flush-1", 1, 0]], ["twin-flush-1"], ["twin-flush-1"], 7, 1),
        ],
    }


def asked() -> list[dict[str, Any]]:
    first, second = list(range(10, 16)), list(range(20, 26))
    return [
        {"id": "A", "arrival_s": 0.0, "prompt_ids": first, "output_tokens": 2, "priority": 0},
        {"id": "B", "arrival_s": 0.001, "prompt_ids": second, "output_tokens": 1, "priority": 0},
    ]


def test_what_is_written_is_a_recording(tmp_path: Path):
    settings = {name: value for name, value in SETTINGS.items() if name != "usable_blocks"}
    write_run(tmp_path / "run", log(), asked(), 100.0, settings)
    (recording,) = read_recordings([tmp_path / "run"])
    first, second = recording.requests
    assert (first.id, first.added_s, first.first_token_s, first.finish_s) == ("A", 0.004, 0.02, 0.04)
    assert (second.arrival_s, second.first_token_s, second.cached_tokens, second.preemptions) == (0.001, 0.04, 0, 0)
    assert recording.settings.limits.num_blocks == 8 and len(recording.steps) == 2
    found = lockstep(recording)
    assert str(found.difference) == "None" and found.right and found.steps == 2
    rows = (tmp_path / "run" / "steps.csv").read_text().splitlines()
    row = dict(zip(rows[0].split(","), rows[2].split(","), strict=True))
    assert {name: float(row[name]) for name in ("gap_before_s", "model_s", "prefill_ctx", "decode_context")} == {
        "gap_before_s": 0.01, "model_s": 0.008, "prefill_ctx": 4 * (2 + 4 / 2), "decode_context": 7
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content["added"].pop("B-0-78"), "2 requests were sent, and the scheduler was given 1"),
        (lambda content: content["steps"].pop(1), "request A: 2 tokens were asked for, and 1 came"),
        (lambda content: content["added"].update({"C-1": 100.0}), "a request C-1 that nobody has sent"),
    ],
)
def test_a_log_that_does_not_hold_the_run(tmp_path: Path, change, told):
    content = json.loads(json.dumps(log()))
    change(content)
    with pytest.raises(LogError, match=told):
        write_run(tmp_path / "run", content, asked(), 100.0, {})
