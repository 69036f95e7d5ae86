"""A policy in vLLM's real engine: a model that computes, vLLM's own loop, the scheduler found by its name."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

TIMEOUT_S = 600


def served(scheduler_cls: str, twin: dict | None, requests: list[list[Any]]) -> dict[str, Any]:
    """What tests/vllm/real_engine.py says: in a process of its own, since vLLM's engine leaves much behind."""
    words = [scheduler_cls, json.dumps(twin), json.dumps(requests)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.vllm.real_engine", *words], capture_output=True, text=True, timeout=TIMEOUT_S,
        env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def vllm_computes_here(version: str) -> None:
    if version != "0.32":
        pytest.skip(f"there is no vLLM {version} that computes on a CPU, or engine.vllm does not run with it")


def test_sjf_by_its_name_serves_the_shortest_first() -> None:
    """One seat, all come at once. The fourth brings no prediction, and is refused; the others are served."""
    requests = [["a", 12, 12, 0], ["b", 3, 3, 0], ["c", 7, 7, 0], ["d", 5, None, 0], ["e", 1, 1, 0]]
    found = served("engine.vllm.sjf", None, requests)
    assert ["d", 0, "error"] in found["order"]
    assert [row for row in found["order"] if row[0] != "d"] == [
        ["e", 1, "length"], ["b", 3, "length"], ["c", 7, "length"], ["a", 12, "length"],
    ]  # fmt: skip
    assert found["preemptions"] == 0


def test_srpt_takes_the_seat_of_a_longer_one() -> None:
    """One seat: `short` comes when `long` has 36 of 40 tokens to go; it is done first, then `long`, whole."""
    requests = [["long", 40, 40, 0], ["short", 4, 4, 4]]
    found = served("engine.vllm.TwinScheduler", {"policy": "srpt"}, requests)
    assert found == {"order": [["short", 4, "length"], ["long", 40, "length"]], "preemptions": 1}


def test_first_come_first_served_without_a_policy() -> None:
    requests = [["long", 40, 40, 0], ["short", 4, 4, 4]]
    found = served("engine.vllm.TwinScheduler", None, requests)
    assert found == {"order": [["long", 40, "length"], ["short", 4, "length"]], "preemptions": 0}
