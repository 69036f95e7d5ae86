"""The same scenario by our scheduler, with the rules of a version of vLLM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.oracle.versions import DIFFERENCES
from twin.core.limits import VLLM_RULES, Rules
from twin.policy_assembly import assemble
from twin.sim.scenario import Scenario, play


def with_rules_of(scenario: Scenario, version: str) -> Scenario:
    """The scenario under all rules of that version, whatever the file says of them; `vllm_defects` is the file's."""
    default = Rules()
    rules = {name: getattr(default, name) for name in VLLM_RULES} | DIFFERENCES[version]
    return replace(scenario, rules=replace(scenario.rules, **rules))


def play_ours(scenario: Scenario, literal: bool = False) -> list[dict[str, Any]]:
    """The steps, and last the summary. `literal`: by the definition alone."""
    policy = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts, None).policy
    return list(play(scenario, policy, literal))
