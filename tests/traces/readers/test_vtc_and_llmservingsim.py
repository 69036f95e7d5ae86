"""Results of the VTC artifact and workloads of LLMServingSim."""

import json

import numpy as np
import pytest

from tests.shared import shared
from traces import open_trace


def _lines(tmp_path, *rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_trace("file", str(path), **options)


def _agree(trace, stats):
    """The trace has the published statistics of its file."""
    assert len(trace) == stats["n"]
    for tokens, name in ((trace.prompt_tokens, "input"), (trace.output_tokens, "output")):
        assert tokens.mean() == pytest.approx(stats[name]["mean"], rel=1e-12)
        assert tokens.std() == pytest.approx(stats[name]["std"], rel=1e-12)
        assert np.median(tokens) == stats[name]["p50"] and tokens.max() == stats[name]["max"]
    gaps = np.diff(trace.arrival_s)
    assert gaps.sum() == pytest.approx(stats["duration_s"], rel=1e-9)
    assert gaps.std() / gaps.mean() == pytest.approx(stats["gap_cv"], rel=1e-6)


def _stats(name):
    return json.loads(shared("reference", "stats.json").read_text())[name]


def test_the_real_arena_log_against_its_published_statistics():
    path = shared("traces", "vtc_lmsys_arena", "FCFS.all_results_real.jsonl")
    trace = open_trace("file", str(path))
    _agree(trace, _stats("vtc_lmsys_arena"))
    assert len(set(trace.user)) == 27
    other = open_trace("file", str(path.with_name("VTC.all_results_real.jsonl")))
    assert other.prompt_tokens.sum() == trace.prompt_tokens.sum()


@pytest.mark.parametrize(
    "responses, problem",
    [
        ([], "rows.jsonl:1: no list result.responses"),
        ({"a": 1}, "rows.jsonl:1: no list result.responses"),
        ([7], "rows.jsonl:1, request 1: must be an object"),
        ([{"prompt_len": 4, "output_len": 3, "req_time": -1}], "rows.jsonl:1, request 1: req_time is -1"),
        ([{"prompt_len": 4, "req_time": 1}], "rows.jsonl:1, request 1: output_len is missing"),
    ],
)
def test_malformed_results_are_named(tmp_path, responses, problem):
    with pytest.raises(ValueError) as caught:
        _lines(tmp_path, {"config": {}, "result": {"responses": responses}})
    assert problem in str(caught.value)


def test_the_real_sharegpt_workload_against_its_published_statistics():
    trace = open_trace("file", str(shared("traces", "sharegpt_llmservingsim", "sharegpt-llama-3.1-8b-300-sps10.jsonl")))
    stats = _stats("sharegpt_300")
    _agree(trace, stats)
    seen: set[int] = set()
    hits = blocks = 0
    for row in range(len(trace)):  # in a cache without end
        keys = trace.prefix.block_keys(row, 16, int(trace.prompt_tokens[row]) // 16)
        hits += sum(key in seen for key in keys)
        blocks += len(keys)
        seen.update(keys)
    assert hits / blocks == pytest.approx(stats["prefix"]["infinite_cache_prefix_hit_blocks"], abs=0.002)


def test_flat_requests_and_sessions_in_one_file(tmp_path):
    parts = [
        {"input_toks": 100, "output_toks": 10, "tool_duration_ns": 2_000_000_000},
        {"input_toks": 150, "output_toks": 20, "tool_duration_ns": 500_000_000},
        {"input_toks": 200, "output_toks": 30, "tool_duration_ns": 0},
    ]
    session = {"session_id": "s", "arrival_time_ns": 1_000_000_000, "sub_requests": parts}
    trace = _lines(tmp_path, {"input_toks": 5, "output_toks": 6, "arrival_time_ns": 0}, session)
    assert trace.arrival_s.tolist() == [0, 1, 3, 3.5] and trace.session == ["", "s", "s", "s"]
    assert trace.turn.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(trace.think_s, [np.nan, np.nan, 2, 0.5])
    assert any("simulate.closed_sessions=true" in note for note in trace.report.notes)
    flat = _lines(tmp_path, {"input_toks": 5, "output_toks": 6, "arrival_time_ns": 7})
    assert flat.session is None and flat.turn is None and flat.prefix is None


@pytest.mark.parametrize(
    "row, problem",
    [
        ({"session_id": "s", "arrival_time_ns": 0, "sub_requests": []}, ":2: sub_requests must be a list of objects"),
        ({"session_id": "s", "arrival_time_ns": 0, "sub_requests": [1]}, ":2: sub_requests must be a list"),
        ({"arrival_time_ns": 0, "sub_requests": [{}]}, ":2: session_id is missing"),
        ({"session_id": "s", "sub_requests": [{}]}, ":2: arrival_time_ns is None, must be a number"),
        ({"session_id": "s", "arrival_time_ns": 0, "sub_requests": [{"tool_duration_ns": -1}]}, "tool_duration_ns is -1"),
        ({"session_id": "s", "arrival_time_ns": 0, "sub_requests": [{}, {}]}, ":2, request 1: input_toks is missing"),
        ({"input_toks": 5, "output_toks": 6}, ":2: arrival_time_ns is missing"),
        ({"input_toks": 2, "output_toks": 6, "arrival_time_ns": 1, "input_tok_ids": [1]}, ":2: input_tok_ids has 1 entries"),
        ([], ":2: not a JSON object"),
    ],
)
def test_a_malformed_line_is_named_or_skipped(tmp_path, row, problem):
    good = {"input_toks": 5, "output_toks": 6, "arrival_time_ns": 0}
    with pytest.raises(ValueError) as caught:
        _lines(tmp_path, good, row)
    assert problem in str(caught.value)
    assert len(_lines(tmp_path, good, row, on_error="skip")) == 1
