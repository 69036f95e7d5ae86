"""The random systems: the same for every policy, and hard enough."""

from pathlib import Path

from twin.check.adversarial import all_scenarios, scenarios
from twin.check.playing import play
from twin.check.pressure import SYSTEMS
from twin.check.scenario_text import scenario_text, write
from twin.check.subject import Subject
from twin.check.systems import random_system
from twin.sim.scenario import load


def test_a_seed_gives_one_system():
    assert random_system("a") == random_system("a") != random_system("b")


def test_together_they_meet_every_rule_of_the_step():
    subject = Subject("fcfs")
    seen: set[str] = set()
    for number in range(SYSTEMS):
        content = random_system(f"random-{number}")
        played = play(subject, content)
        assert played.outcome is not None
        counters, requests = played.outcome.counters, played.outcome.requests
        seen |= {name for name, count in counters.items() if count}
        seen |= set(requests["status"])
        seen |= {name for name in ("async_scheduling", "long_prefill_token_threshold") if content["scheduler"][name]}
        seen |= {"pauses"} if any("pauses" in row for row in content["requests"]) else set()
        seen |= {"samples"} if any(row.get("n", 1) > 1 for row in content["requests"]) else set()
    assert {"recompute_preemptions", "swap_preemptions", "swap_fallbacks", "prefix_cache_hits", "aborted", "finished",
            "async_scheduling", "long_prefill_token_threshold", "samples", "pauses"} <= seen  # fmt: skip


def test_somebody_is_aborted_in_every_phase():
    contents = dict(scenarios())
    for mode in ("recompute", "swap"):
        played = play(Subject("fcfs"), contents[f"aborts, {mode}"])
        assert played.outcome is not None
        requests = {name: row for row, name in enumerate(played.outcome.requests["request_id"])}
        status = played.outcome.requests["status"]
        assert {name for name in requests if status[requests[name]] == "finished"} == {"has ended", "stays", "stays too"}
    generated = played.outcome.requests["generated_tokens"]
    assert generated[requests["waits"]] == 0 and generated[requests["in its prompt"]] == 0
    assert generated[requests["decodes"]] > 0
    out = [step for step in played.rows if step["preempted"].get("swapped") == "swap"][-1]
    end = next(step for step in played.rows if "swapped" in step["finished"])
    between = played.rows[out["step"] - 1 : end["step"]]
    assert all("swapped" not in step["scheduled"] for step in between)  # it was out when it was given up


def test_each_scenario_is_there_for_both_kinds_of_scheduling():
    names = [name for name, _ in all_scenarios()]
    assert len(set(names)) == len(names) == 2 * len(list(scenarios()))


def test_a_scenario_is_written_as_a_file_that_can_be_played(tmp_path):
    subject = Subject("fcfs")
    content = subject.content(random_system("random-3"))
    file = tmp_path / "failing.yaml"
    file.write_text(scenario_text(content, "why it\nfailed"), encoding="utf-8")
    ((_, read),) = load(file)
    assert file.read_text().startswith("# why it failed\n")
    meant = subject.scenario(content)[0]
    assert vars(read) | {"latency": vars(read.latency)} == vars(meant) | {"latency": vars(meant.latency)}


def test_a_scenario_is_written_whatever_the_policy_says(tmp_path: Path):
    """Half a surrogate pair is no text that could be encoded."""
    file = write(tmp_path, "a burst", random_system("any"), "it raised RuntimeError: \udc80")
    assert r"\udc80" in file.read_text(encoding="utf-8")
