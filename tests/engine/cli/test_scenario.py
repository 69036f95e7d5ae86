"""`engine scenario` says what `twin scenario` says, and what each step took."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.cli.main import main
from tests.docs.pages import blocks
from twin import policies_registry
from twin.cli.main import main as twin

SCENARIO = """cache: {num_gpu_blocks: 8, block_size: 16}
scheduler: {max_num_batched_tokens: 64}
policy: {name: fcfs}
requests:
  - {id: A, arrival_s: 0, prompt_tokens: 16, output_tokens: 2}
"""
REQUESTS = [
    {"id": "A", "arrival_s": 0, "prompt_tokens": 13, "output_tokens": 9, "user": "u0", "priority": 1, "deadline_s": 40},
    {"id": "B", "arrival_s": 0, "prompt": "0-11", "output_tokens": 6, "user": "u1", "deadline_s": 9},
    {"id": "C", "arrival_s": 0.5, "prompt": "0-7,90-99", "output_tokens": 5, "user": "u0"},
    {"id": "D", "arrival_s": 2, "prompt_tokens": 5, "output_tokens": 12, "abort_s": 6.5, "user": "u2"},
    {"id": "E", "arrival_s": 3, "prompt_tokens": 7, "output_tokens": 3, "n": 2, "user": "u1"},
    {"id": "F", "arrival_s": 3, "prompt_tokens": 4, "output_tokens": 5, "pauses": [[2, 1.5, 3]], "user": "u1"},
]


def both(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines of the simulator and of the engine, which end alike and complain alike."""
    ends = []
    for program in (twin, main):
        status = program(["scenario", *words])
        output = capsys.readouterr()
        ends.append((status, output.err, [json.loads(line) for line in output.out.splitlines()]))
    (status, said, simulated), (engine_status, engine_said, computed) = ends
    assert engine_status == status and engine_said == said.replace("twin scenario", "engine scenario")
    return status, simulated, computed


def without_times(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each step is measured; a plan without tokens or transfers took nothing."""
    left = []
    for line in lines:
        if "steps" in line:
            line = line | {"steps": without_times(line["steps"])}
        elif "summary" not in line:
            measured_s = line["measured_s"]
            assert measured_s > 0 if line["scheduled"] else measured_s >= 0
            line = {key: value for key, value in line.items() if key != "measured_s"}
        left.append(line)
    return left


def scenario(**changes: Any) -> dict[str, Any]:
    cache = {"num_gpu_blocks": 9, "block_size": 4, "num_cpu_blocks": 6}
    limits = {"max_num_seqs": 4, "max_num_batched_tokens": 16}
    return {"cache": cache, "scheduler": limits, "model": {"max_model_len": 32}, "requests": REQUESTS} | changes


def all_policies() -> list[dict[str, Any]]:
    """Each shipped one, synchronous and asynchronous, with swap and without."""
    scenarios = []
    for name in policies_registry.names(None):
        found = policies_registry.find(name)
        policy = {"name": name} | {parameter.name: 2 for parameter in found.parameters if parameter.required}
        for asynchronous in (False, True):
            mode = "swap" if asynchronous else "recompute"
            limits = {"max_num_seqs": 4, "max_num_batched_tokens": 16, "async_scheduling": asynchronous}
            one = scenario(policy=policy | {"preemption_mode": mode}, scheduler=limits, predictor="oracle")
            scenarios.append({"id": f"{name} {mode}", "scenario": one})
    return scenarios


def test_the_example_of_the_documentation(capsys):
    Path("short_of_blocks.yaml").write_text(blocks("scenarios", "yaml")[0])
    status, simulated, computed = both(capsys, "short_of_blocks.yaml")
    assert status == 0 and without_times(computed) == simulated and len(simulated) > 3


def test_every_shipped_policy_in_one_packed_file(capsys):
    scenarios = all_policies()
    Path("many.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in scenarios).encode()))
    status, simulated, computed = both(capsys, "many.jsonl.gz")
    assert status == 0 and len(simulated) == len(scenarios)
    for ours, theirs in zip(without_times(computed), simulated, strict=True):
        assert ours == theirs, ours["id"]
    assert sum(line["summary"]["preemptions"] for line in simulated) > 20
    assert any(step["copies"] for line in simulated for step in line["steps"])


@pytest.mark.parametrize("name", ["orca", "static"])
def test_contiguous_allocation_is_computed_too(capsys, name):
    Path("one.yaml").write_text(yaml.safe_dump(scenario(policy={"name": name}, predictor="oracle")))
    status, simulated, computed = both(capsys, "one.yaml")
    assert status == 0 and without_times(computed) == simulated
    assert any(row["status"] == "finished" for row in simulated[-1]["summary"]["requests"].values())


@pytest.mark.parametrize(
    "change",
    [
        ("max_num_batched_tokens", "max_num_batched_token"),
        ("name: fcfs", "name: fcsf"),
        ("name: fcfs", "name: fcfs, alpha: 1"),
        ("output_tokens: 2", "output_tokens: 0"),
        ("num_gpu_blocks: 8", "num_gpu_blocks: 0"),
        ("{id: A", "{{id: A"),
    ],
)
def test_a_mistake_in_a_file_is_told_as_the_simulator_tells_it(capsys, change):
    Path("bad.yaml").write_text(SCENARIO.replace(*change))
    status, simulated, computed = both(capsys, "bad.yaml")
    assert (status, simulated, computed) == (2, [], [])


@pytest.mark.parametrize("words", [[], ["a.yaml", "b.yaml"], ["nowhere.yaml"], ["notes.txt"], ["seed=3"]])
def test_a_wrong_call_is_told_as_the_simulator_tells_it(capsys, words):
    assert both(capsys, *words)[0] == 2


def test_more_blocks_than_there_is_memory_for_are_refused(capsys):
    Path("large.yaml").write_text(SCENARIO.replace("num_gpu_blocks: 8", "num_gpu_blocks: 100000000"))
    assert main(["scenario", "large.yaml"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    assert "large.yaml: cache.num_gpu_blocks=100000000" in output.err and "would fit" in output.err


def test_a_policy_that_fails_is_told_after_the_steps_that_led_to_it(capsys):
    Path("mine").mkdir()
    Path("mine/picky.py").write_text(
        'from twin.policy import Policy\n\n\nclass Picky(Policy):\n    """Never content."""\n\n'
        "    def admit(self, request, view):\n        return 1 / (view.now < 5)\n"
    )
    late = "  - {id: B, arrival_s: 7, prompt_tokens: 16, output_tokens: 2}\n"
    Path("one.yaml").write_text(SCENARIO.replace("fcfs", "picky") + late)
    status, simulated, computed = both(capsys, "one.yaml", "policy_path=mine")
    assert status == 1 and len(simulated) == 2 and without_times(computed) == simulated
