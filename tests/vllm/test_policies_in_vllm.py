"""Policies inside vLLM's scheduler (engine.vllm): each shipped one decides there what it decides in our simulator."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.oracle.compare import first_difference
from engine.oracle.ours import with_rules_of
from engine.oracle.play import Play
from tests.vllm.carried import parts_ways, policy_scenario
from tests.vllm.differences import Content, scenario_file, smallest
from tests.vllm.random_scenarios import random_scenario
from twin.policy_sources import BUILT_IN
from twin.sim.scenario_file import read_scenario

SCENARIOS = int(os.environ.get("TWIN_VLLM_SCENARIOS", "2000"))
NEUTRAL = max(40, SCENARIOS * 3 // 10)  # half of them asynchronous
EACH = max(4, SCENARIOS // 20)  # of each policy
REFUSED = {  # by what word
    "andes": "schedule()",
    "infercept": "pause()",
    "mlfq": "mode()",
    "orca": "contiguous",
    "prefill_first": "schedule()",
    "sarathi": "schedule()",
    "static": "contiguous",
}
SHARPENED: dict[str, list[Content]] = {  # parameters with which a small scenario meets the rules; parts that go with it
    "dlpm": [{"quantum_tokens": 20}],
    "drr": [{"quantum_tokens": 20}],
    "edf": [{}, {"preemptive": True}],
    "fcfs": [{}, {"admission": "watermark(share=0.2)", "victim": "least_computed"}],
    "las": [{"quantum_tokens": 4}],
    "lpm": [{"age_tokens": 2}],
    "ltr": [{"starvation_threshold": 5, "period": 3}],
    "priority": [{}, {"age_s": 3.0}, {"preempt_for_seat": True}],
    "ps": [{"quantum_tokens": 4}],
    "rpm": [{"limit": 2, "over": "reject"}],
    "sjf": [{}, {"size": "total", "admission": "no_evict"}],
    "slack": [{}, {"preemptive": True}],
    "ssjf": [{"first_class_tokens": 4}],
    "vtc": [{}, {"predict": True}, {"cost": "profiled"}, {"weights": "a:2", "admission": "past_future"}],
    "watermark": [{"share": 0.2}],
}
NEUTRAL_POLICY = '''
from twin.policy import ADMIT, Policy

class Nothing(Policy):
    """Every hook answers as vLLM does."""

    def admit(self, request, view):
        return ADMIT

    def chunk(self, request, offered, view):
        return offered

    def victim(self, running, view):
        return running[-1]

    def on_wait(self, request, view):
        assert request.state == "waiting"

    def on_step(self, view, batch, k):
        assert sum(batch.by_user.values()) >= len(batch.requests) and k == 1
'''


@pytest.fixture(autouse=True)
def vllm_is_here(version: str) -> None:
    if version not in ("0.33", "0.32"):
        pytest.skip(f"engine.vllm does not run with vLLM {version}")


def shipped() -> Iterator[tuple[str, Content]]:
    for file in sorted(BUILT_IN.glob("[!_]*.py")):
        if file.stem not in REFUSED:
            for options in SHARPENED.get(file.stem, [{}]):
                yield file.stem, options


def _words(value: str | Content) -> str:
    return value if isinstance(value, str) else ",".join(f"{name}={word}" for name, word in value.items()) or "plain"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_a_policy_that_decides_nothing_leaves_vllm_as_it_is(version: str, asynchronous: bool, tmp_path: Path) -> None:
    """None at all, one without hooks, and one all of whose hooks answer as vLLM does."""
    from engine.vllm import TwinScheduler

    (tmp_path / "nothing.py").write_text(NEUTRAL_POLICY)
    configurations = [{}, {"twin": {"policy": "fcfs"}}, {"twin": {"policy": "nothing", "policy_path": str(tmp_path)}}]
    for seed in range(NEUTRAL // 2):
        content = random_scenario(seed, version, asynchronous) | {"policy": {"name": "fcfs"}}
        scenario = with_rules_of(read_scenario(content, "here"), version)
        plain = Play(scenario).run()
        for configuration in configurations:
            found = first_difference(Play(scenario, TwinScheduler, additional_config=configuration).run(), plain)
            assert not found, (seed, configuration, found)


def test_without_a_policy_its_own_priorities_are_as_they_are(version: str) -> None:
    from engine.vllm import TwinScheduler

    for seed in range(NEUTRAL // 10):
        for asynchronous in (False, True):
            content = random_scenario(seed, version, asynchronous) | {"policy": {"name": "priority"}}
            scenario = with_rules_of(read_scenario(content, "here"), version)
            assert not first_difference(Play(scenario, TwinScheduler).run(), Play(scenario).run()), seed


@pytest.mark.parametrize(("name", "options"), list(shipped()), ids=_words)
def test_a_shipped_policy_decides_as_in_the_simulator(version: str, name: str, options: Content) -> None:
    for seed in range(EACH // 2):
        for asynchronous in (False, True):
            content = policy_scenario(seed, version, asynchronous, {"name": name, **options})
            if parts_ways(content, version):
                content = smallest(content, lambda candidate: _differs(candidate, version))
                told = "\n".join(parts_ways(content, version))
                pytest.fail(f"seed {seed}, vLLM {version}\n{told}\n\n{scenario_file(content)}", pytrace=False)


def _differs(content: Content, version: str) -> bool:
    try:
        return bool(parts_ways(content, version))
    except ValueError:  # what is left of it is no scenario
        return False


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_vllm_cannot_carry_is_refused_at_the_start(version: str, name: str) -> None:
    from engine.vllm import TwinScheduler

    content = random_scenario(0, version, False) | {"policy": {"name": "fcfs"}}
    with pytest.raises(ValueError) as refused:
        Play(read_scenario(content, "here"), TwinScheduler, additional_config={"twin": {"policy": name}})
    assert str(refused.value).startswith(f"policy {name} cannot run in vLLM: ")
    assert REFUSED[name] in str(refused.value) and "\n" not in str(refused.value)
