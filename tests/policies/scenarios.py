"""Micro-scenarios written as Python, played under the policy that they name."""

from dataclasses import replace
from typing import Any

from twin import predictors_registry
from twin.policy_assembly import assemble
from twin.sim.scenario import play
from twin.sim.scenario_file import read_scenario

MILLISECONDS = {"base_s": 0.010, "per_prefill_token_s": 0.001, "per_decode_token_s": 0.001}  # 10 + tokens ms a step


def request(name: str, prompt_tokens: int, output_tokens: int, arrival_s: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "arrival_s": arrival_s, **more}


def played(
    policy: str | dict[str, Any],
    requests: list[dict[str, Any]],
    blocks: int,
    block_size: int = 16,
    cache: dict[str, Any] | None = None,
    max_model_len: int = 4096,
    latency: dict[str, float] | None = None,
    predictor: str | dict[str, Any] = "none",
    **scheduler: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The steps and the summary; a step takes one second unless `latency` says otherwise."""
    content = {
        "cache": {"num_gpu_blocks": blocks, "block_size": block_size, **(cache or {})},
        "scheduler": scheduler,
        "model": {"max_model_len": max_model_len},
        "policy": policy if isinstance(policy, dict) else {"name": policy},
        "predictor": predictor,
        "latency": latency or {"base_s": 1.0},
        "requests": requests,
    }
    scenario = read_scenario(content, "scenario")
    chosen = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts).policy
    if chosen.allocator == "contiguous":
        scenario = replace(scenario, rules=replace(scenario.rules, allocator="contiguous"))
    predicting, _ = predictors_registry.find(scenario.predictor).build(scenario.predictor_parameters)
    *steps, last = play(scenario, chosen, predictor=predicting)
    return steps, last["summary"]


def scheduled(steps: list[dict[str, Any]]) -> list[dict[str, int]]:
    return [step["scheduled"] for step in steps]


def end_ms(steps: list[dict[str, Any]]) -> list[int]:
    return [round(1000 * step["end_s"]) for step in steps]


def free(steps: list[dict[str, Any]]) -> list[int]:
    return [step["free_blocks"] for step in steps]


def token_ms(summary: dict[str, Any], name: str) -> list[int]:
    return [round(1000 * time_s) for time_s in summary["requests"][name]["token_times_s"]]


def gaps(times: list[int]) -> list[int]:
    return [later - earlier for earlier, later in zip(times, times[1:], strict=False)]


def named_by_step(steps: list[dict[str, Any]]) -> str:
    """Who has the only seat, a letter a step."""
    return "".join(name for step in steps for name in step["scheduled"])
