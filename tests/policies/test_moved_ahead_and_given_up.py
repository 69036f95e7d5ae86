"""Blocks that came back from the host ahead of need, and are given up before the request runs, are hit when it resumes."""

from typing import Any

from twin.policy_assembly import assemble
from twin.sim.scenario import play
from twin.sim.scenario_file import read_scenario

CONTENT: dict[str, Any] = {
    "cache": {"num_gpu_blocks": 30, "block_size": 4, "num_cpu_blocks": 4, "enable_prefix_caching": True},
    "scheduler": {"max_num_seqs": 128, "max_num_batched_tokens": 4096, "async_scheduling": True},
    "policy": {"name": "fcfs", "preemption_mode": "keep", "victim": "mlfq", "pause": "keep"},
    "latency": {
        "base_s": 0.008, "mixed_s": 0.003, "per_prefill_token_s": 6e-5, "per_decode_token_s": 5e-5,
        "per_context_token_s": 1e-7,
    },
    "swap": {"per_copy_s": 1e-4},
    "requests": [
        {"id": "r00", "prompt": "0-19", "output_tokens": 11, "n": 2},
        {"id": "r01", "prompt": "1000000-1000019,11000000-11000009", "output_tokens": 6, "n": 2},
        {"id": "r02", "prompt": "0-19,12000000-12000015", "output_tokens": 10, "n": 2},
        {"id": "r03", "prompt": "1000000-1000019,13000000-13000029", "output_tokens": 4},
        {"id": "r04", "prompt": "0-19,14000000-14000011", "output_tokens": 5},
    ],
}  # fmt: skip


def steps(literal: bool) -> list[dict[str, Any]]:
    scenario = read_scenario(CONTENT, "scenario")
    policy = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts).policy
    return list(play(scenario, policy, literal=literal))


def test_the_usual_way_decides_as_the_definition():
    """The tenth block of r02.0, of its own outputs, has been to the host and back when its blocks are given up."""
    assert steps(literal=False) == steps(literal=True)
