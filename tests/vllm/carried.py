"""A policy in our simulator and inside vLLM's scheduler: random scenarios, both plays, where they part ways."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from engine.oracle.compare import first_difference
from engine.oracle.ours import with_rules_of
from engine.oracle.play import Play
from tests.vllm.random_scenarios import ONE_SECOND, Content, random_scenario
from twin.policy_assembly import assemble
from twin.predictors_registry import find
from twin.sim.scenario import Scenario, play
from twin.sim.scenario_file import ScenarioRequest, read_scenario

Row = dict[str, Any]


def policy_scenario(seed: int, version: str, asynchronous: bool, policy: Content) -> Content:
    """A random scenario with users, deadlines and predictions. All prompts are token ids, since vLLM hashes them all, and
    every request has a limit, since vLLM's have one."""
    content = random_scenario(seed, version, asynchronous)
    rng = Random(f"{seed} {asynchronous} more")
    scale_s = 10.0 if content["latency"] is ONE_SECOND else 0.2
    for place, row in enumerate(content["requests"]):
        row["user"], row["session"] = rng.choice("abc"), rng.choice("xy")
        row.setdefault("max_tokens", row["output_tokens"])
        if rng.random() < 0.8:
            row["deadline_s"] = round(row["arrival_s"] + rng.random() * scale_s, 4)
        if "prompt" not in row:
            first = 10_000 + place * 100
            row["prompt"] = f"{first}-{first + row.pop('prompt_tokens') - 1}"
    return content | {"policy": policy, "predictor": "oracle", "vllm_defects": False}


def extra_args(scenario: Scenario) -> Callable[[ScenarioRequest], Row]:
    """What a client would send with each request; its length is what an oracle says of it."""

    def of(row: ScenarioRequest) -> Row:
        length = min(row.output_tokens, row.max_tokens or row.output_tokens)
        length = max(1, min(length, scenario.limits.max_model_len - row.prompt_tokens))
        given = {"user": row.user, "session": row.session, "deadline_s": row.deadline_s, "predicted_output": length}
        return {f"twin_{name}": value for name, value in given.items() if value is not None}

    return of


def in_vllm(scenario: Scenario) -> list[Row]:
    """vLLM's steps with the scenario's policy in its scheduler."""
    from engine.vllm import TwinScheduler

    twin: Row = {"policy": scenario.policy_name, **scenario.policy_parameters, **scenario.policy_parts}
    if scenario.rules.preempt_for_seat:
        twin["preempt_for_seat"] = True
    return Play(
        scenario, TwinScheduler, additional_config={"twin": twin}, extra_args=extra_args(scenario)
    ).run()  # fmt: skip


def in_the_simulator(scenario: Scenario) -> list[Row]:
    policy = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts).policy
    return list(play(scenario, policy, predictor=find("oracle").build({})[0]))


def parts_ways(content: Content, version: str) -> list[str]:
    """Where the two decide differently; empty: nowhere."""
    scenario = with_rules_of(read_scenario(content, "here"), version)
    return first_difference(in_the_simulator(scenario), in_vllm(scenario))
