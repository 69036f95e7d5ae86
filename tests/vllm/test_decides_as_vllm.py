"""Random scenarios through vLLM's own scheduler and ours: who, how many tokens, who is preempted, block ids, times."""

import gzip
import json
import os
from dataclasses import replace

import pytest

from engine.oracle.compare import first_difference
from engine.oracle.ours import play_ours, with_rules_of
from engine.oracle.play import Play, Unplayable
from engine.oracle.versions import BASE, DIFFERENCES
from tests.shared import shared
from tests.sim.test_vllm_rules import STALE
from tests.vllm.differences import Content, difference, scenario_file, smallest
from tests.vllm.random_scenarios import random_scenario
from twin.core.limits import VLLM_RULES
from twin.sim.scenario_file import read_scenario

SCENARIOS = int(os.environ.get("TWIN_VLLM_SCENARIOS", "2000"))  # half of them asynchronous
UNPLAYABLE_SHARE = {"0.11": 0.15}  # of random scenarios, at most; docs/vllm.md says what becomes of them
UNSEEN = {"0.11": {"victim_skips_next", "vllm_defects"}}  # only in scenarios that cannot be played
SENSITIVE_SCENARIOS = 400  # of each kind: enough to meet every rule
SCHEDULED_AND_PREEMPTED = STALE | {
    "requests": [
        {"id": "first", "prompt_tokens": 29, "output_tokens": 9, "priority": 5},
        {"id": "second", "arrival_s": 0.5, "prompt_tokens": 16, "output_tokens": 2},
    ]
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_decides_as_vllm(version: str, asynchronous: bool) -> None:
    """A scenario in which they differ is made as small as it gets, and printed as a file."""
    unplayable = 0
    for seed in range(SCENARIOS // 2):
        content = random_scenario(seed, version, asynchronous)
        try:
            found = difference(content, version)
        except Unplayable:
            unplayable += 1
            continue
        if found:
            content = smallest(content, lambda candidate: _differs(candidate, version))
            told = "\n".join(difference(content, version))
            pytest.fail(f"seed {seed}, vLLM {version}\n{told}\n\n{scenario_file(content)}", pytrace=False)
    assert unplayable <= UNPLAYABLE_SHARE.get(version, 0.0) * SCENARIOS / 2


def _differs(content: Content, version: str) -> bool:
    try:
        return bool(difference(content, version))
    except ValueError:  # what is left of it is no scenario, or none for vLLM
        return False


def test_each_rule_is_met(version: str) -> None:
    """With any one rule of the version turned round, the scenarios above tell."""
    rules = {*VLLM_RULES, "vllm_defects"} - UNSEEN.get(version, set())
    for seed in range(SENSITIVE_SCENARIOS):
        for asynchronous in (False, True):
            scenario = with_rules_of(read_scenario(random_scenario(seed, version, asynchronous), "here"), version)
            try:
                theirs = Play(scenario, abort_before_update=scenario.rules.abort_before_update).run()
            except Unplayable:
                continue
            for name in sorted(rules):
                turned = replace(scenario.rules, **{name: not getattr(scenario.rules, name)})
                if first_difference(play_ours(replace(scenario, rules=turned)), theirs):
                    rules.discard(name)
        if not rules:
            return
    assert rules == set()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_oracle_says_what_was_recorded_of_it(version: str, kind: str) -> None:
    if version != BASE:
        pytest.skip(f"the records are vLLM {BASE}'s")
    differences = {}
    with gzip.open(shared("vllm_decisions", f"gold_{kind}_handed.jsonl.gz"), "rt") as lines:
        for gold in map(json.loads, lines):
            rows = Play(read_scenario(gold["scenario"], gold["id"])).run()
            found = first_difference(rows, [*gold["steps"], {"summary": gold["summary"]}])
            if found:
                differences[gold["id"]] = found
    assert differences == {}


def test_vllm_takes_from_its_cache_what_was_never_computed(version: str) -> None:
    """The scenario of tests/sim/test_vllm_rules.py: this is vLLM's, not ours."""
    if version == "0.11":
        with pytest.raises(Unplayable, match="schedules a request that it has preempted in the same step"):
            Play(with_rules_of(read_scenario(SCHEDULED_AND_PREEMPTED, "here"), version)).run()
        return
    *steps, _ = Play(with_rules_of(read_scenario(STALE, "here"), version)).run()
    assert [step["cached_tokens"] for step in steps] == [{"first": 0, "second": 0}, {}, {"first": 28}]


def test_the_rules_of_another_version_are_not_those_of_this_one(version: str) -> None:
    """Under the rules of each other version ours decides otherwise, somewhere among the first scenarios."""
    others = DIFFERENCES.keys() - {version}
    for seed in range(20):
        scenario = read_scenario(random_scenario(seed, version, asynchronous=False), "here")
        try:
            theirs = Play(with_rules_of(scenario, version)).run()
        except Unplayable:
            continue
        others -= {other for other in others if first_difference(play_ours(with_rules_of(scenario, other)), theirs)}
    assert others == set()
