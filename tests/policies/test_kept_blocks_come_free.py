"""Blocks that a pausing request keeps are taken for one that runs: what comes free with them is there for the head."""

from typing import Any

from tests.sim.cases import difference
from twin.policy_assembly import assemble
from twin.sim.scenario import ScenarioTrace
from twin.sim.scenario_file import read_scenario
from twin.sim.simulation import Outcome, Setup, Simulation

CONTENT: dict[str, Any] = {
    "cache": {"num_gpu_blocks": 6, "block_size": 4},
    "policy": {"name": "prefill_first", "admission": "watermark(share=0)", "pause": "keep"},
    "latency": {"base_s": 1.0},
    "requests": [
        {"id": "runs", "prompt_tokens": 7, "output_tokens": 12},
        {"id": "pauses", "prompt_tokens": 14, "output_tokens": 4, "pauses": [[1, 100.0]]},
        {"id": "head", "arrival_s": 0.5, "prompt_tokens": 4, "output_tokens": 1},
    ],
}


def outcome(step_by_step: bool) -> Outcome:
    scenario = read_scenario(CONTENT, "scenario")
    policy = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts).policy
    setup = Setup(scenario.limits, policy, scenario.latency, scenario.rules, scenario.swap)
    return Simulation(setup, ScenarioTrace(scenario), step_by_step=step_by_step).run()


def test_the_head_refused_before_in_the_same_plan_is_asked_again_in_the_next():
    """Two and four blocks are held. In step 3 `runs` needs its third (token 9), after the head was refused: the four of
    `pauses` are given up, and the head comes in with step 4, which begins at 3 s."""
    steps, forward = outcome(True), outcome(False)
    head = forward.requests["request_id"].index("head")
    assert forward.requests["first_scheduled_s"][head] == 3.0
    assert difference(steps, forward) is None
