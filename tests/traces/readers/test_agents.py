"""Agent sessions of kv-cache-tester: turns, think times, ids of their own, subagents."""

import gzip
import json

import numpy as np
import pytest

from tests.shared import shared
from traces import open_trace

FOLDER = ("traces", "claude_code_kvcache_tester")


def _request(t=0.0, prompt=128, output=5, ids=(1, 2), **more):
    return {"t": t, "type": "n", "in": prompt, "out": output, "hash_ids": list(ids), **more}


def _session(*requests, name="a", **more):
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": list(requests), **more}


def _open(tmp_path, *sessions, **options):
    path = tmp_path / "sessions.jsonl"
    path.write_text("\n".join(map(json.dumps, sessions)))
    return open_trace("file", str(path), **options)


def test_turns_and_thinking_of_a_session(tmp_path):
    requests = _request(), _request(19, 200, 7, (1, 2, 3), think_time=12.0, api_time=6.5), _request(30, 64, 1, (1,))
    trace = _open(tmp_path, _session(*requests))
    assert trace.arrival_s.tolist() == [0, 19, 30] and trace.session == ["a"] * 3 and trace.turn.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(trace.think_s, [np.nan, 12, 11])  # the last has none: since the arrival before
    assert trace.prefix.shareable_tokens().tolist() == [128, 128, 64]


def test_equal_ids_of_two_sessions_are_two_contents_unless_their_scope_is_global(tmp_path):
    sessions = [_session(_request(), _request(5, 192, 5, (1, 2, 3)), name=name) for name in "ab"]
    trace = _open(tmp_path, *sessions)
    assert trace.session == ["a", "b", "a", "b"]
    keys = [trace.prefix.block_keys(row, 16, 8) for row in range(4)]
    assert keys[0] == keys[2] and keys[1] == keys[3] and not set(keys[0]) & set(keys[1])
    shared_by_all = _open(tmp_path, *[{**session, "hash_id_scope": "global"} for session in sessions])
    assert shared_by_all.prefix.block_keys(0, 16, 8) == shared_by_all.prefix.block_keys(1, 16, 8)


def test_sparse_ids_of_a_session_are_kept_apart_too(tmp_path):
    ids = (5, 2**31 - 1)
    trace = _open(tmp_path, *[_session(_request(ids=ids), _request(1, ids=ids), name=name) for name in "ab"])
    assert trace.prefix.shareable_tokens().tolist() == [128] * 4
    assert trace.prefix.block_keys(0, 64, 2) != trace.prefix.block_keys(1, 64, 2)


def test_subagents_are_sessions_beside_their_parent_and_share_its_ids(tmp_path):
    inner = {"t": 10, "type": "subagent", "agent_id": "x", "requests": [_request(), _request(3, think_time=1)]}
    trace = _open(tmp_path, _session(_request(), inner, _request(20)))
    assert trace.arrival_s.tolist() == [0, 10, 13, 20]
    assert trace.session == ["a", "a/x", "a/x", "a"] and trace.turn.tolist() == [1, 1, 2, 2]
    np.testing.assert_array_equal(trace.think_s, [np.nan, np.nan, 1, 20])
    assert trace.prefix.shareable_tokens().tolist() == [128] * 4


def test_sessions_begin_at_a_rate(tmp_path):
    trace = _open(tmp_path, *[_session(_request(), name=name) for name in "abc"], session_rate=0.5)
    assert trace.arrival_s.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="trace.session_rate is 0"):
        _open(tmp_path, _session(_request()), session_rate=0)


@pytest.mark.parametrize(
    "request_, problem",
    [
        (_request(t=-1), "t is -1.0"),
        (_request(t="x"), "t is 'x', must be a number"),
        (_request(prompt=0, ids=()), "in is 0"),
        (_request(ids=(1, 2, 3)), "hash_ids has 3 entries, the prompt has at most 2 blocks"),
        (_request(ids=(-1,)), "hash_ids must be a list of integers from 0"),
        (_request(ids=("x",)), "hash_ids must be a list of integers"),
        (_request(hash_runs=[[1, 10**9]]), "hash_runs has more than 2 entries"),
        (_request(hash_runs=[[1, 2**31]]), "must go up, from 0 to"),
        (_request(hash_runs=[[2, 1]]), "must go up"),
        (_request(hash_runs=7), "hash_runs must be a list"),
        (_request(hash_runs=[[1]]), "hash_runs must be a list of [first, last], has [1]"),
        (_request(think_time=-1), "think_time is -1.0"),
        ({"t": -3, "requests": [_request()]}, "t of its subagent must be a number"),
        ({"t": 1e400, "requests": [_request()]}, "t of its subagent must be a number"),
        (_request(prompt=10**400), "must be at most"),
        ("no request", "in is missing"),
    ],
)
def test_a_malformed_request_is_named_by_line_and_number(tmp_path, request_, problem):
    sessions = _session(_request()), _session(_request(), request_, name="b")
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, *sessions)
    assert "sessions.jsonl:2, request 2: " in str(caught.value) and problem in str(caught.value)
    assert len(_open(tmp_path, *sessions, on_error="skip")) == 2


@pytest.mark.parametrize(
    "session, problem",
    [
        ({**_session(_request()), "block_size": 0}, ":2: block_size is 0, must be 64"),
        ({**_session(_request()), "block_size": 32}, ":2: block_size is 32, must be 64"),
        ({**_session(_request()), "block_size": None}, ":2: block_size is None, must be an integer"),
        ({**_session(_request()), "requests": 7}, ":2: a session must be an object with a list requests"),
        ([], ":2: a session must be"),
    ],
)
def test_a_malformed_session_is_named_by_line(tmp_path, session, problem):
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, _session(_request()), session)
    assert f"sessions.jsonl{problem}" in str(caught.value)


def test_a_folder_of_files_and_its_packed_form_are_the_same(tmp_path):
    folder = shared(*FOLDER, "verbatim")
    trace = open_trace("file", str(folder))
    names = {json.loads(path.read_text())["id"] for path in folder.glob("*.json")}
    packed = tmp_path / "some.jsonl.gz"
    with gzip.open(shared(*FOLDER, "traces.rle.jsonl.gz"), "rt") as file, gzip.open(packed, "wt") as some:
        some.writelines(line for line in file if json.loads(line)["id"] in names)
    same = open_trace("file", str(packed))
    assert len(trace.prefix.ids) > 10_000
    np.testing.assert_array_equal(trace.prefix.ids, same.prefix.ids)
    for name, values in trace.columns().items():
        np.testing.assert_array_equal(values, same.columns()[name])


def test_the_real_sessions_against_an_independent_reading_and_published_statistics():
    path = shared(*FOLDER, "traces.rle.jsonl.gz")
    stats = json.loads(shared("reference", "stats.json").read_text())["claude_code_sessions"]
    with gzip.open(path, "rt") as file:
        sessions = [json.loads(line)["requests"] for line in file]
    flat = [[inner for entry in entries for inner in entry.get("requests", [entry])] for entries in sessions]
    trace = open_trace("file", str(path))
    assert trace.report.read == sum(map(len, flat))
    assert trace.report.dropped == {"no output tokens": stats["zero_output"]}
    assert trace.prompt_tokens.sum() == sum(entry["in"] for entries in flat for entry in entries if entry["out"])
    assert trace.output_tokens.sum() == sum(entry["out"] for entries in flat for entry in entries)
    assert len({name.split("/")[0] for name in trace.session}) == len(sessions)

    # The statistics are of a choice of 692 of the sessions, so they agree to some per cent only.
    with_agents = {name.split("/")[0] for name in trace.session if "/" in name}
    rows = np.array([row for row, name in enumerate(trace.session) if name.split("/")[0] not in with_agents])
    assert len(rows) == pytest.approx(stats["n"], rel=0.001)
    assert trace.prompt_tokens[rows].max() == stats["input"]["max"]
    assert np.median(trace.output_tokens[rows]) == pytest.approx(stats["output"]["p50"], rel=0.05)
    later = rows[trace.turn[rows] > 1]
    assert np.median(trace.think_s[later]) == stats["think"]["p50"]
    np.testing.assert_allclose(np.percentile(trace.think_s[later], 90), stats["think"]["p90"], rtol=0.1)

    seen: dict[str, set[int]] = {}
    hits = blocks = 0
    for row in rows.tolist():  # in a cache without end, session by session
        ids = trace.prefix.sequence(row)
        known = seen.setdefault(trace.session[row], set())
        fresh = [number not in known for number in ids.tolist()]
        hits += fresh.index(True) if True in fresh else len(fresh)
        blocks += len(fresh)
        known.update(ids.tolist())
    assert hits / blocks == pytest.approx(stats["prefix"]["infinite_cache_prefix_hit_blocks"], abs=0.005)
