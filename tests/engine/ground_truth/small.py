"""Small recordings, every step of which is calculated by hand."""

import json
from pathlib import Path
from typing import Any

SETTINGS = {
    "vllm": "0.32.0", "torch": "2.13.0+cpu", "model": "a small one", "dtype": "float32", "block_size": 4, "usable_blocks": 8,
    "max_num_seqs": 2, "max_num_batched_tokens": 8, "max_model_len": 64, "prefix": False, "async_scheduling": False,
}  # fmt: skip
REQUESTS = "request_id,arrival_s,added_s,prompt_tokens,output_tokens,first_token_s,finish_s,preemptions,cached_tokens,group"
STEPS = "step,start_s,end_s,waiting,running"


def write(
    folder: Path,
    requests: list[str],
    steps: list[tuple[float, float, int, int]],
    parts: list[dict[str, Any]],
    settings: dict[str, Any] | None = None,
) -> Path:
    """The files of a run; their names are free."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "asked.csv").write_text("\n".join([REQUESTS, *requests]) + "\n")
    rows = [",".join(map(str, (number, *row))) for number, row in enumerate(steps)]
    (folder / "clock.csv").write_text("\n".join([STEPS, *rows]) + "\n")
    lines = [json.dumps({"step": number} | row) for number, row in enumerate(parts)]
    (folder / "decided.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "about.json").write_text(json.dumps(SETTINGS | (settings or {}), indent=1))
    return folder


def part(
    parts: list[list[Any]], admitted: list[str], free_blocks: int, preempted: list[str] | None = None
) -> dict[str, Any]:
    return {"parts": parts, "admitted": admitted, "preempted": preempted or [], "free_blocks": free_blocks}


def chunked(folder: Path, **settings: Any) -> Path:
    """A has 6 tokens of a budget of 8, so that B gets 2 and then 4; C, that comes in step 0, waits for one of two seats."""
    return write(
        folder,
        [
            "A,0,0,6,3,0.03,0.08,0,0,",
            "B,0,0,6,2,0.05,0.08,0,0,",
            "C,0.02,0.0201,3,1,0.1,0.1,0,0,",
        ],
        [(0.01, 0.03, 0, 2), (0.031, 0.05, 1, 2), (0.051, 0.08, 1, 2), (0.081, 0.1, 0, 1)],
        [
            part([["A", 6, 0], ["B", 2, 0]], ["A", "B"], 5),  # 2 blocks and 1
            part([["A", 1, 6], ["B", 4, 2]], [], 4),
            part([["A", 1, 7], ["B", 1, 6]], [], 4),
            part([["C", 3, 0]], ["C"], 7),
        ],
        settings,
    )


def preempting(folder: Path) -> Path:
    """Three blocks: in step 1 A takes the last one, B finds none and gives up its own; it comes back when A has ended."""
    steps = [(0.01 + 0.02 * number, 0.028 + 0.02 * number, 0, 1) for number in range(7)]
    steps[0] = (*steps[0][:2], 0, 2)
    for number in range(1, 6):
        steps[number] = (*steps[number][:2], 1, 1)
    return write(
        folder,
        ["A,0,0,4,6,0.028,0.128,0,0,", "B,0,0,4,2,0.028,0.148,1,0,"],
        steps,
        [
            part([["A", 4, 0], ["B", 4, 0]], ["A", "B"], 1),
            part([["A", 1, 4]], [], 1, ("B",)),
            part([["A", 1, 5]], [], 1),
            part([["A", 1, 6]], [], 1),
            part([["A", 1, 7]], [], 1),
            part([["A", 1, 8]], [], 0),
            part([["B", 5, 0]], ["B"], 1),
        ],
        {"usable_blocks": 3},
    )


def cached(folder: Path) -> Path:
    """B comes when A has computed its prompt of two full blocks and a token: it shares both."""
    prompts = {"A": list(range(100, 109)), "B": [*range(100, 108), 7, 8]}
    write(
        folder,
        ["A,0,0,9,2,0.03,0.07,0,0,", "B,0.04,0.04,10,1,0.07,0.07,0,8,"],
        [(0.01, 0.03, 0, 1), (0.05, 0.07, 0, 2)],
        [part([["A", 9, 0]], ["A"], 5), part([["A", 1, 9], ["B", 2, 8]], ["B"], 4)],
        {"prefix": True, "max_num_batched_tokens": 16},
    )
    lines = [json.dumps({"request_id": name, "prompt_tokens": len(ids), "prompt_ids": ids}) for name, ids in prompts.items()]
    (folder / "content.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def edit(file: Path, old: str, new: str) -> None:
    """Replaces what must be there once."""
    text = file.read_text()
    assert text.count(old) == 1, (old, text)
    file.write_text(text.replace(old, new))
