"""The project's own table as CSV and JSONL (Parquet: test_write.py)."""

import json

import numpy as np
import pytest

from traces import open_trace

HEADER = "arrival_s,prompt_tokens,output_tokens"


def _csv(tmp_path, *rows, header=HEADER, **options):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return open_trace("file", str(path), **options)


def _jsonl(tmp_path, *rows, **options):
    path = tmp_path / "table.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_trace("file", str(path), **options)


def _row(arrival_s=0.0, prompt_tokens=4, output_tokens=2, **more):
    return {"arrival_s": arrival_s, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, **more}


def test_every_optional_column_and_what_stands_for_an_empty_cell(tmp_path):
    header = HEADER + ",request_id,user,session,turn,think_s,priority,deadline_s,abort_s,n,max_tokens,colour"
    trace = _csv(tmp_path, "5,10,20,a,u,s,2,1.5,-3,9,8,4,32,red", "6,11.0,21,b,,,,,,,,,,blue", header=header)
    assert trace.arrival_s.tolist() == [0, 1] and trace.prompt_tokens.tolist() == [10, 11]
    assert trace.request_id == ["a", "b"] and trace.user == ["u", ""] and trace.session == ["s", ""]
    assert trace.turn.tolist() == [2, 0] and trace.priority.tolist() == [-3, 0]
    assert trace.n.tolist() == [4, 1] and trace.max_tokens.tolist() == [32, -1]
    np.testing.assert_array_equal(trace.think_s, [1.5, np.nan])
    np.testing.assert_array_equal(trace.deadline_s, [4, np.nan])  # on the clock of the arrivals, which began at 5
    np.testing.assert_array_equal(trace.abort_s, [3, np.nan])
    assert trace.report.lines() == [
        f"{tmp_path}/table.csv (this project's table as CSV): 2 requests read",
        "columns ignored: colour",
    ]


def test_pauses_are_text_and_read_when_they_are_needed(tmp_path):
    trace = _csv(tmp_path, "0,4,90,20:1.5;60:0.3:40", "1,4,4,", header=HEADER + ",pauses")
    assert trace.pauses == ["20:1.5;60:0.3:40", ""]
    assert trace.pauses_of(0) == ((20, 1.5, 0), (60, 0.3, 40)) and trace.pauses_of(1) == ()


@pytest.mark.parametrize(
    "cell, problem",
    [
        ("20", "pauses '20': '20' is no pause: after_tokens:seconds or after_tokens:seconds:returned_tokens"),
        ("a:1", "'a:1' is no pause"),
        ("1:2:3:4", "'1:2:3:4' is no pause"),
        ("5:1;", "'' is no pause"),
        ("0:1", "a pause after 0 tokens: the first must be at least 1, and they must ascend"),
        ("5:1;5:1", "a pause after 5 tokens"),
        ("5:-1", "a pause of -1 s"),
        ("5:inf", "a pause of inf s"),
        ("5:nan", "a pause of nan s"),
        ("5:1:-2", "a pause that returns -2 tokens"),
    ],
)
def test_a_malformed_pause_is_named_by_line(tmp_path, cell, problem):
    with pytest.raises(ValueError, match="table.csv:3: ") as caught:
        _csv(tmp_path, "0,1,1,", f"0,1,1,{cell}", header=HEADER + ",pauses")
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_several_samples_cannot_pause(tmp_path):
    with pytest.raises(ValueError, match="table.csv:2: pauses do not go with n, which is 2"):
        _csv(tmp_path, "0,1,9,2,3:1", header=HEADER + ",n,pauses")


@pytest.mark.parametrize(
    "row, problem",
    [
        ("-1,4,4", "arrival_s is -1.0, must be finite and not negative"),
        ("nan,4,4", "arrival_s is nan"),
        ("inf,4,4", "arrival_s is inf"),
        (",4,4", "arrival_s is missing"),
        ("early,4,4", "arrival_s is 'early', must be a number"),
        ("0,0,4", "prompt_tokens is 0, must be at least 1"),
        ("0,-7,4", "prompt_tokens is -7"),
        ("0,1e3000,4", "prompt_tokens is '1e3000', must be an integer"),
        ("0,2000000000,4", "prompt_tokens is 2000000000, must be at most 1,000,000,000"),
        ("0,4,4.5", "output_tokens is '4.5', must be an integer"),
        ("0,4", "2 fields, the header has 3"),
    ],
)
def test_a_malformed_row_is_named_by_line(tmp_path, row, problem):
    with pytest.raises(ValueError) as caught:
        _csv(tmp_path, "0,1,1", "", row)
    assert f"table.csv:4: {problem}" in str(caught.value) and "\n" not in str(caught.value)
    assert len(_csv(tmp_path, "0,1,1", "", row, on_error="skip")) == 1


def test_the_first_bad_line_is_the_one_named(tmp_path):
    with pytest.raises(ValueError, match="table.csv:3: output_tokens"):
        _csv(tmp_path, "0,1,1", "0,1,x", "z,1,1", "0,y,1")


@pytest.mark.parametrize(
    "header, rows, problem",
    [
        ("arrival_s,prompt_tokens", ["0,1"], "no column output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens,output_tokens", ["0,1,1,1"], "two columns are named 'output_tokens'"),
        (HEADER + ",request_id", ["0,1,1,a", "1,1,1,a"], ":3: request_id 'a' is that of line 2"),
        (HEADER + ",request_id", ["0,1,1,a", "1,1,1,"], ":3: request_id is missing"),
        (HEADER + ",n", ["0,1,1,0"], ":2: n is 0"),
        (HEADER + ",max_tokens", ["0,1,1,0"], ":2: max_tokens is 0"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, header, rows, problem):
    with pytest.raises(ValueError, match=problem):
        _csv(tmp_path, *rows, header=header)


def test_trc_03_epoch_microseconds_are_recognised_said_and_normalised(tmp_path):
    """trc-03: the loader normalises by the smallest time, and detects the unit with a warning."""
    start = 1_700_000_000_000_000
    rows = f"{start + 2_500_000},1,1,{start + 4_000_000}", f"{start},2,1,"
    trace = _csv(tmp_path, *rows, header=HEADER + ",deadline_s")
    assert trace.arrival_s.tolist() == [0, 2.5]
    assert trace.deadline_s[1] == 4.0
    assert any("looks like us since 1970" in note for note in trace.report.notes)
    seconds = _csv(tmp_path, f"{start},1,1", f"{start + 2},1,1", time_unit="s")
    assert seconds.arrival_s.tolist() == [0, 2] and not seconds.report.notes
    assert _csv(tmp_path, "1500,1,1", "2000,1,1", time_unit="ms").arrival_s.tolist() == [0, 0.5]
    with pytest.raises(ValueError, match="trace.time_unit=h: allowed are s, ms, us, ns"):
        _csv(tmp_path, "0,1,1", time_unit="h")


def test_trc_03_relative_deadlines_beside_absolute_times_are_refused(tmp_path):
    """trc-03: mixed origins."""
    with pytest.raises(ValueError, match=r"table.csv:2: deadline_s is 5, before arrival_s, 1700000000: .* same clock"):
        _csv(tmp_path, "1700000000,1,1,5", header=HEADER + ",deadline_s")


def test_trc_03_a_gap_that_is_most_of_the_trace_is_noted(tmp_path):
    """trc-03: one row of another origin shows as a gap."""
    trace = _csv(tmp_path, "0,1,1", "1700000000,1,1", "1700000001,1,1")
    assert "largest gap between arrivals, 1.7e+09 s before request 1, is 100 % of the trace" in trace.report.lines()[-1]
    assert not _csv(tmp_path, "0,1,1", "1,1,1", "2,1,1").report.notes


def test_prompt_ids_give_prefixes_of_token_granularity(tmp_path):
    rows = [_row(prompt_ids=[1, 2, 3, 4]), _row(prompt_ids=[1, 2, 3, 9]), _row(prompt_ids=[9, 2, 3, 4]), _row()]
    trace = _jsonl(tmp_path, *rows)
    assert trace.prefix.hash_block_tokens == 1
    assert trace.prefix.shareable_tokens().tolist() == [3, 3, 0, 0]
    with pytest.raises(ValueError, match="table.jsonl:1: prompt_ids has 2 entries, a prompt of 4 tokens .* needs 4"):
        _jsonl(tmp_path, _row(prompt_ids=[1, 2]))


def test_prefix_hashes_need_the_tokens_that_one_covers(tmp_path):
    rows = [_row(prefix_hashes=[1, 2]), _row(prefix_hashes=[1, 3])]
    assert _jsonl(tmp_path, *rows, hash_block_tokens=2).prefix.shareable_tokens().tolist() == [2, 2]
    with_size = [{**row, "hash_block_tokens": 2} for row in rows]
    assert _jsonl(tmp_path, *with_size).prefix.shareable_tokens().tolist() == [2, 2]
    with pytest.raises(ValueError, match="prefix_hashes has 3 entries, a prompt of 4 tokens .* has at most 2"):
        _jsonl(tmp_path, _row(prefix_hashes=[1, 2, 3]), hash_block_tokens=2)
    with pytest.raises(ValueError, match="prefix_hashes needs trace.hash_block_tokens"):
        _jsonl(tmp_path, *rows)
    with pytest.raises(ValueError, match="table.jsonl:2: hash_block_tokens is 4, but 2 above"):
        _jsonl(tmp_path, with_size[0], {**with_size[1], "hash_block_tokens": 4})
    with pytest.raises(ValueError, match="trace.hash_block_tokens is 0"):
        _jsonl(tmp_path, *rows, hash_block_tokens=0)


def test_a_user_that_is_a_number_is_text_and_one_that_is_a_list_is_refused(tmp_path):
    assert _jsonl(tmp_path, _row(user=7), _row()).user == ["7", ""]
    with pytest.raises(ValueError, match="table.jsonl:1: user must be text"):
        _jsonl(tmp_path, _row(user=[1]))
