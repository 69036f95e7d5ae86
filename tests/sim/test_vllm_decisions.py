"""Every decision of vLLM 0.32's own scheduler, run alone with a virtual clock, in 276 scenarios (176 synchronous, 100
asynchronous): who is scheduled, with how many tokens, in which order; who is preempted; block ids, times, summaries."""

import gzip
import json
from typing import Any

import pytest

from policies.fcfs import Fcfs
from policies.priority import Priority
from tests.shared import shared
from twin.sim.scenario import play
from twin.sim.scenario_file import read_scenario

POLICIES = {"fcfs": Fcfs, "priority": Priority}
STAMPS = ("start_s", "end_s", "planned_s")
DECISIONS = (
    "scheduled", "admitted", "preempted", "swapped_in", "outputs", "finished", "cached_tokens", "block_tables", "ref_counts",
    "free_blocks", "copies",
)  # fmt: skip
TOLERANCE_S = 1e-9


@pytest.mark.parametrize("literal", [True, False], ids=["literal", "usual"])
@pytest.mark.parametrize("kind, scenarios", [("sync", 176), ("async", 100)])
def test_decides_as_vllm(kind: str, scenarios: int, literal: bool) -> None:
    differences = {}
    count = 0
    with gzip.open(shared("vllm_decisions", f"gold_{kind}_handed.jsonl.gz"), "rt") as lines:
        for gold in map(json.loads, lines):
            count += 1
            scenario = read_scenario(gold["scenario"], gold["id"])
            *steps, last = play(scenario, POLICIES[scenario.policy_name](), literal)
            difference = first_difference(steps, gold["steps"]) or summary_difference(last["summary"], gold["summary"])
            if difference:
                differences[gold["id"]] = difference
    assert count == scenarios
    assert not differences, f"{len(differences)} of {count} scenarios differ: {differences}"


def first_difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str | None:
    """Where two lists of steps part ways, in words."""
    for number, (mine, gold) in enumerate(zip(ours, theirs, strict=False), 1):
        for name in STAMPS:
            if not same_time(mine.get(name), gold.get(name)):
                return f"step {number}: {name} is {mine.get(name)}, vLLM's is {gold.get(name)}"
        for name in DECISIONS:
            same = mine[name] == gold[name]
            if name == "scheduled":  # its order is the order in which blocks are handed out
                same = list(mine[name].items()) == list(gold[name].items())
            if not same:
                return f"step {number}: {name} is {mine[name]}, vLLM's is {gold[name]}"
    return None if len(ours) == len(theirs) else f"{len(ours)} steps, vLLM makes {len(theirs)}"


def summary_difference(mine: dict[str, Any], gold: dict[str, Any]) -> str | None:
    for name in ("steps", "preemptions", "free_blocks"):
        if mine[name] != gold[name]:
            return f"summary: {name} is {mine[name]}, vLLM's is {gold[name]}"
    for request, theirs in gold["requests"].items():
        ours = mine["requests"][request]
        for name, value in theirs.items():
            if name == "reason":  # words of ours where vLLM gives none
                same = True
            elif name == "token_times_s":
                same = len(ours[name]) == len(value) and all(map(same_time, ours[name], value))
            elif name.endswith("_s"):
                same = same_time(ours[name], value)
            else:
                same = ours[name] == value
            if not same:
                return f"summary of {request}: {name} is {ours[name]}, vLLM's is {value}"
    return None


def same_time(mine: float | None, gold: float | None) -> bool:
    if mine is None or gold is None:
        return mine is gold
    return abs(mine - gold) <= TOLERANCE_S
