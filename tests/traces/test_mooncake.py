"""Mooncake JSONL: hash ids of 512 tokens, a clock of 3 seconds."""

import json

import numpy as np
import pytest

from tests.shared import shared
from traces import open_trace


def _row(timestamp=0, length=20, output=5, ids=(0,), **more):
    return {"timestamp": timestamp, "input_length": length, "output_length": output, "hash_ids": list(ids), **more}


def _open(tmp_path, *rows, **options):
    path = tmp_path / "mooncake.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return open_trace("file", str(path), **options)


@pytest.mark.parametrize("length, ids, needed", [(20, [0, 1], 1), (1025, [0, 1], 3), (512, [0, 1], 1), (513, [], 2)])
def test_trc_01_the_number_of_hash_ids_must_fit_the_prompt(tmp_path, length, ids, needed):
    """trc-01: input_length 20 with two ids is an error that names the line; 1025 tokens need three ids."""
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, _row(), _row(length=length, ids=ids))
    assert f"mooncake.jsonl:2: hash_ids has {len(ids)} entries, a prompt of {length} tokens" in str(caught.value)
    assert str(caught.value).endswith(f"needs {needed}")
    skipped = _open(tmp_path, _row(), _row(length=length, ids=ids), on_error="skip")
    assert len(skipped) == 1 and skipped.report.dropped == {"malformed rows": 1}


def test_milliseconds_become_seconds_and_full_blocks_are_shared(tmp_path):
    rows = _row(3000, 1100, ids=[1, 2, 3]), _row(6001, 1536, ids=[1, 2, 4]), _row(9000, 600, ids=[1, 9])
    trace = _open(tmp_path, *rows)
    assert trace.arrival_s.tolist() == [0, pytest.approx(3.001), 6]
    assert trace.prefix.shareable_tokens().tolist() == [1024, 1024, 512]
    assert trace.prefix.minimum_cacheable_tokens(16) == 512


@pytest.mark.parametrize(
    "row, problem",
    [
        ("{broken", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1, 2]", "not a JSON object"),
        (_row(timestamp=-1), "timestamp is -1.0, must be finite and not negative"),
        ('{"timestamp": NaN, "input_length": 20, "output_length": 5, "hash_ids": [0]}', "timestamp is nan"),
        ('{"timestamp": 1e999, "input_length": 20, "output_length": 5, "hash_ids": [0]}', "timestamp is inf"),
        (_row(timestamp="soon"), "timestamp is 'soon', must be a number"),
        (_row(timestamp=True), "timestamp is True, must be a number"),
        (_row(length=0, ids=[]), "input_length is 0, must be at least 1"),
        (_row(length=2.5), "input_length is 2.5, must be an integer"),
        (_row(length=None), "input_length is missing"),
        (_row(length=True), "input_length is True"),
        (_row(length=10**30), "input_length is 1000000000000000000000000000000, must be at most 1,000,000,000"),
        (_row(output=-1), "output_length is -1"),
        (_row(ids=["a", 1.5], length=600), "hash_ids must hold integers or text"),
        ({**_row(), "hash_ids": 7}, "hash_ids must be a list"),
    ],
)
def test_a_malformed_row_is_named_by_line(tmp_path, row, problem):
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, _row(), "", row)
    assert "mooncake.jsonl:3: " in str(caught.value) and problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(_open(tmp_path, _row(), "", row, on_error="skip")) == 1


def test_ids_may_be_text_or_very_large(tmp_path):
    big = 2**64 + 1
    trace = _open(tmp_path, _row(0, 1024, ids=[big, "x"]), _row(1, 1024, ids=[big, "y"]), _row(2, 1024, ids=[1, "x"]))
    assert trace.prefix.shareable_tokens().tolist() == [512, 512, 0]


def test_unknown_columns_are_named_and_missing_ones_refused(tmp_path):
    assert "columns ignored: model" in _open(tmp_path, _row(model="m")).report.lines()
    with pytest.raises(ValueError, match="mooncake.jsonl:1: no hash_ids; a Mooncake row has timestamp"):
        _open(tmp_path, {"timestamp": 1, "input_length": 2, "output_length": 3})


def test_ties_are_spread_evenly_up_to_the_next_tick(tmp_path):
    rows = [_row(t) for t in (0, 0, 0, 3000, 6000, 6000, 60000, 60000)]
    assert _open(tmp_path, *rows).arrival_s.tolist() == [0, 0, 0, 3, 6, 6, 60, 60]
    spread = _open(tmp_path, *rows, spread_ties=True)
    assert spread.arrival_s.tolist() == pytest.approx([0, 1, 2, 3, 6, 7.5, 60, 61.5])
    with pytest.raises(ValueError, match="spread_ties is yes"):
        _open(tmp_path, *rows, spread_ties="yes")


def test_the_real_file():
    path = shared("traces", "mooncake_fast25", "conversation_trace.jsonl")
    rows = [json.loads(line) for line in open(path)]
    trace = open_trace("file", str(path))
    assert trace.prompt_tokens.tolist() == [row["input_length"] for row in rows]
    assert trace.output_tokens.tolist() == [row["output_length"] for row in rows]
    assert trace.arrival_s.tolist() == [row["timestamp"] / 1e3 for row in rows]
    assert not trace.report.dropped
    times_seen: dict[int, int] = {}
    for row in rows:
        for number in row["hash_ids"][: row["input_length"] // 512]:
            times_seen[number] = times_seen.get(number, 0) + 1
    expected = [
        512 * sum(times_seen[number] > 1 for number in row["hash_ids"][: row["input_length"] // 512]) for row in rows
    ]  # ids are chained, so the shared ones come first
    assert trace.prefix.shareable_tokens().tolist() == expected

    spread = open_trace("file", str(path), spread_ties=True)
    assert len(np.unique(spread.arrival_s)) == len(spread), "no two at the same instant"
    assert np.all(np.abs(spread.arrival_s - trace.arrival_s) < 3.01)
