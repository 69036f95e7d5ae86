"""Scenario files: what they say is checked, and each mistake is one line that names file, place and what would be right."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from policies.fcfs import Fcfs
from twin.sim.prompts import chained_keys, parse_prompt
from twin.sim.scenario import load, play
from twin.sim.scenario_file import read_scenario

A = {"id": "A", "arrival_s": 0, "prompt_tokens": 16, "output_tokens": 2}


def scenario(*requests: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"cache": {"num_gpu_blocks": 8}, "requests": list(requests or [A])} | changes


def played(content: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *steps, last = play(read_scenario(content, "here"), Fcfs())
    return steps, last["summary"]


# --- mistakes


def with_request(**changes: Any) -> dict[str, Any]:
    return scenario(A | changes)


def with_cache(**changes: Any) -> dict[str, Any]:
    return scenario(cache={"num_gpu_blocks": 8} | changes)


MISTAKES: list[tuple[Any, str]] = [
    ([], "here: a scenario must be a mapping, not []"),
    ({"requests": [A]}, "here: cache is missing"),
    ({"cache": {"num_gpu_blocks": 8}}, "here: requests is missing"),
    (scenario(cache={}), "here: cache.num_gpu_blocks is missing"),
    (scenario(cache=8), "here: cache must be a mapping, not 8"),
    (scenario(cache={"num_gpu_blocks": "8"}), "here: cache.num_gpu_blocks must be an integer, not '8'"),
    (with_cache(blocksize=4), "here: cache has no option 'blocksize'; there are allocator, "),
    (with_cache(num_cpu_blocks=-1), "here: cache.num_cpu_blocks must not be negative, not -1"),
    (with_cache(enable_prefix_caching="no"), "here: cache.enable_prefix_caching must be true or false, not 'no'"),
    (with_cache(watermark=2), "here: cache.watermark is a share of the pool, 0 <= watermark < 1"),
    (with_cache(watermark="x"), "here: cache.watermark is a share of the pool, 0 <= watermark < 1"),
    (scenario(schedular={}), "here: a scenario has no option 'schedular'; there are cache, latency"),
    (scenario(scheduler={"max_num_seqs": 0}), "here: scheduler.max_num_seqs must be at least 1, not 0"),
    (scenario(scheduler={"async_scheduling": 0}), "here: scheduler.async_scheduling must be true or false, not 0"),
    (scenario(vllm_defects="no"), "here: vllm_defects must be true or false, not 'no'"),
    (scenario(policy=["fcfs"]), "here: policy must be a name or a mapping, not ['fcfs']"),
    (scenario(policy={"preempt_for_seat": "no"}), "here: policy.preempt_for_seat must be true or false, not 'no'"),
    (scenario(policy={"preemption_mode": ["swap"]}), "here: policy.preemption_mode must be a name, not ['swap']"),
    (with_request(pauses=3), "here: request A: pauses must be a list of [after_tokens, seconds, returned_tokens], not 3"),
    (with_request(pauses=[[3]]), "here: request A: pauses: a pause is [after_tokens, seconds]"),
    (with_request(pauses=[[3.5, 1]]), "here: request A: pauses: after_tokens must be an integer, not 3.5"),
    (with_request(pauses=[[3, "1"]]), "here: request A: pauses: seconds must be a number, not '1'"),
    (with_request(pauses=[[3, 1, None]]), "here: request A: pauses: returned_tokens must be an integer, not None"),
    (with_request(pauses=[[3, 1], [3, 1]]), "here: request A: a pause after 3 tokens, at least 4 are needed"),
    (with_request(pauses=[[3, float("nan")]]), "here: request A: a pause of nan s, it must be at least 0 s"),
    (with_request(pauses=[[3, 1]], n=2), "here: request A: pauses do not go with n=2 samples"),
    (scenario(policy={"victim": 3}), "here: policy.victim must be a name, not 3"),
    (scenario(predictor=["oracle"]), "here: predictor must be a name or a mapping, not ['oracle']"),
    (scenario(latency={}), "here: latency=linear: all fields are 0"),
    (scenario(latency={"base_s": "fast"}), "here: latency=linear"),
    (scenario(latency={"bases": 1}), "here: latency has no option 'bases'; there are base_s"),
    (scenario(swap={"bandwidth_gib_s": 0}), "here: swap.bandwidth_gib_s must be more than 0 GiB/s, not 0"),
    (scenario(swap={"per_copy_s": "x"}), "here: swap.per_copy_s must be a time of at least 0 s, not 'x'"),
    (scenario(requests={}), "here: requests must be a list of at least one request"),
    (scenario(requests=[]), "here: requests must be a list of at least one request"),
    (scenario(A, A), "here: two requests share the id 'A'"),
    (scenario(A | {"id": "B", "n": 2}, A | {"id": "B.1"}), "here: two requests share the id 'B.1'"),
    (with_request(id=["A"]), "here: request 1: id must be a name, not ['A']"),
    (with_request(id=None), "here: request 1: id must be a name, not None"),
    (scenario(latency={"base_s": 10**400}), "here: a number is too large"),
    (scenario(A, 7), "here: request 2 must be a mapping, not 7"),  # type: ignore[arg-type]
    (with_request(tokens=5), "here: request 1 has no option 'tokens'; there are abort_s"),
    (with_request(output_tokens=0), "here: request A: output_tokens must be an integer of at least 1, not 0"),
    (with_request(prompt_tokens=1.5), "here: request A: prompt_tokens must be an integer of at least 1, not 1.5"),
    (with_request(max_tokens=True), "here: request A: max_tokens must be an integer of at least 1, not True"),
    (with_request(n=0), "here: request A: n must be an integer of at least 1, not 0"),
    (with_request(priority="high"), "here: request A: priority must be an integer, not 'high'"),
    (with_request(arrival_s=-1), "here: request A: arrival_s must be a time of at least 0 s, not -1"),
    (with_request(arrival_s="now"), "here: request A: arrival_s must be a time of at least 0 s, not 'now'"),
    (with_request(abort_s=float("nan")), "here: request A: abort_s must be a time of at least 0 s, not nan"),
    (with_request(deadline_s=float("inf")), "here: request A: deadline_s must be a time of at least 0 s, not inf"),
    (with_request(prompt="0-9"), "here: request A: prompt has 10 ids, prompt_tokens says 16"),
    (scenario({"id": "B", "output_tokens": 1}), "here: request B: prompt_tokens (a length) or prompt (token ids) is m"),
    (scenario({"id": "B", "prompt_tokens": 1}), "here: request B: output_tokens is missing"),
]  # fmt: skip


@pytest.mark.parametrize("content, message", MISTAKES, ids=[message[6:60] for _, message in MISTAKES])
def test_a_mistake_is_one_line_with_its_place(content: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        read_scenario(content, "here")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "prompt, message",
    [
        ("0-", "there: prompt '0-' must be token ids and ranges such as \"0-31,900-907\""),
        ("a", "there: prompt 'a' must be token ids and ranges"),
        ("", "there: prompt '' must be token ids and ranges"),
        ("9-3", "there: prompt range '9-3' must ascend"),
        ("0-99999999", "there: prompt range '0-99999999' must ascend and be shorter than 10,000,000 ids"),
        ([], "there: prompt must list token ids, integers of at least 0"),
        ([1, -1], "there: prompt must list token ids, integers of at least 0"),
    ],
)
def test_mistakes_in_prompts(prompt: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_prompt(prompt, "there")
    assert str(error.value).startswith(message)


FILES = [
    ("bad.yaml", b"cache: {num_gpu_blocks: 8\nrequests: [", "bad.yaml:2: not YAML: "),
    ("bad.yaml", b"\xff\xfe\x00", "bad.yaml: not a text file"),
    ("bad.yaml", b"", "bad.yaml: cache is missing"),
    ("bad.jsonl", b'{"id": 1, "scenario": ', "bad.jsonl:1: not JSON: "),
    ("bad.jsonl", b'\n{"id": 1}\n', 'bad.jsonl:2: expected {"id": ..., "scenario": {...}}'),
    ("bad.jsonl", b'{"id": 1, "scenario": {}}\n', "bad.jsonl:1: cache is missing"),
    ("bad.yaml", b"cache: {num_gpu_blocks: 8}\ncache: {}\n", "bad.yaml:2: 'cache' stands twice"),
    ("bad.yaml", b"cache: " + b"[" * 5000, "bad.yaml: nested too deeply for a scenario"),
    ("bad.jsonl", b'{"id": 1, "id": 2, "scenario": {}}\n', "bad.jsonl:1: 'id' stands twice"),
    ("bad.jsonl", b"\n", "bad.jsonl: no scenarios"),
    ("bad.jsonl.gz", b"not gzip", "bad.jsonl.gz: not a gzip file of text"),
    ("bad.jsonl.gz", gzip.compress(b'{"id": 1}')[:-9], "bad.jsonl.gz: not a gzip file of text"),
]  # fmt: skip


@pytest.mark.parametrize("name, content, message", FILES)
def test_mistakes_in_files_name_file_and_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        list(load(path))
    assert str(error.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(error.value)


# --- what they say


@pytest.mark.parametrize("name", ["many.jsonl", "many.jsonl.gz"])
def test_a_file_of_many_scenarios(tmp_path: Path, name: str) -> None:
    lines = [json.dumps({"id": "x", "scenario": scenario()}), "", json.dumps({"scenario": with_request(output_tokens=3)})]
    content = "\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    both = list(load(tmp_path / name))
    assert [identity for identity, _ in both] == ["x", "3"]
    assert [len(list(play(one, Fcfs()))) for _, one in both] == [2 + 1, 3 + 1]


def test_ranges_and_commas() -> None:
    assert parse_prompt("0-3, 9,7-8", "") == [0, 1, 2, 3, 9, 7, 8]
    assert parse_prompt(5, "") == [5]


def test_keys_are_equal_where_all_tokens_up_to_there_agree() -> None:
    keys = chained_keys({"a": [1, 2, 3, 4, 5], "b": [1, 2, 3, 4], "c": [1, 2, 9, 9, 3, 4], "d": [3, 4]}, block_size=2)
    assert [len(chain) for chain in keys.values()] == [2, 2, 3, 1]
    assert keys["a"] == keys["b"] and keys["a"][0] == keys["c"][0] != keys["d"][0]
    assert len({keys["a"][1], keys["c"][1], keys["c"][2], keys["d"][0]}) == 4


def test_defaults_are_those_of_the_contract() -> None:
    read = read_scenario(scenario(), "here")
    limits = read.limits
    assert (limits.block_size, limits.num_host_blocks, limits.watermark) == (16, 0, 0.0)
    assert limits.enable_chunked_prefill and not limits.enable_prefix_caching and not read.rules.async_scheduling
    assert (read.policy_name, read.predictor, read.latency.base_s) == ("fcfs", "none", 1.0)


def test_samples_are_shown_each_by_name() -> None:
    steps, summary = played(
        scenario({"id": "A", "prompt_tokens": 6, "output_tokens": 2, "n": 2}, cache={"num_gpu_blocks": 8, "block_size": 4})
    )
    first, second = steps
    assert first["scheduled"] == {"A.0": 6} and first["outputs"] == {"A.0": 1, "A.1": 1}
    assert first["block_tables"] == {"A.0": [0, 1], "A.1": [0, 1]} and first["ref_counts"] == {"0": 2, "1": 2}
    assert second["copies"] == [[1, 2]] and second["finished"] == ["A.0", "A.1"]
    assert {name: row["token_times_s"] for name, row in summary["requests"].items()} == {"A.0": [1, 2], "A.1": [1, 2]}


def test_an_idle_asynchronous_engine_plans_two_steps_at_the_same_instant() -> None:
    """... and what arrives a moment later waits for the third plan, when the first step has ended."""
    late = {"id": "B", "arrival_s": 3.001, "prompt_tokens": 4, "output_tokens": 1}
    steps, _ = played(scenario(A | {"arrival_s": 3, "output_tokens": 9}, late, scheduler={"async_scheduling": True}))
    assert [(step["planned_s"], step["start_s"]) for step in steps[:3]] == [(3.0, 3.0), (3.0, 4.0), (4.0, 5.0)]
    assert [step["admitted"] for step in steps[:3]] == [["A"], [], ["B"]]


def test_a_swap_is_told() -> None:
    requests = [{"id": name, "prompt_tokens": 8, "output_tokens": 3} for name in "AB"]
    cache = {"num_gpu_blocks": 4, "block_size": 4, "num_cpu_blocks": 2}
    steps, _ = played(scenario(*requests, cache=cache, policy={"preemption_mode": "swap"}))
    assert steps[1]["preempted"] == {"B": "swap"} and steps[1]["block_tables"]["B"] == [None, None]
    assert steps[3]["swapped_in"] == ["B"] and steps[3]["admitted"] == []


def test_a_rejected_request_has_its_reason_in_the_summary() -> None:
    _, summary = played(scenario(A, {"id": "big", "prompt_tokens": 129, "output_tokens": 1}))
    row = summary["requests"]["big"]
    assert (row["status"], row["reason"]) == ("rejected", "129 tokens need 9 blocks, num_gpu_blocks=8")
    assert row["finish_s"] is None and row["token_times_s"] == []


def test_an_aborted_request_is_among_those_who_end_with_the_step() -> None:
    steps, summary = played(scenario(A | {"output_tokens": 9, "abort_s": 2.5}))
    assert steps[-1]["finished"] == ["A"] and steps[-1]["outputs"] == {}
    assert summary["requests"]["A"]["status"] == "aborted" and summary["requests"]["A"]["token_times_s"] == [1.0, 2.0]
