"""Logs of services: BurstGPT, Qwen-Bailian, the newer Azure files."""

import gzip
import json

import numpy as np
import pytest

from traces import open_trace

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
NEWER = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def _csv(tmp_path, text, **options):
    (tmp_path / "log.csv").write_text(text)
    return open_trace("file", str(tmp_path / "log.csv"), **options)


def _jsonl(tmp_path, *rows, **options):
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return open_trace("file", str(tmp_path / "log.jsonl"), **options)


def test_burstgpt_whole_seconds_and_failed_requests(tmp_path):
    text = BURST + "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n45,ChatGPT,3,4,7,API log\n"
    text += "45.0,GPT-4,0,0,0,API log\n47,GPT-4,8,9,17,API log\n"
    trace = _csv(tmp_path, text)
    assert trace.arrival_s.tolist() == [0, 40, 42] and trace.prompt_tokens.tolist() == [472, 3, 8]
    assert trace.output_tokens.tolist() == [18, 4, 9]
    assert trace.report.read == 5 and trace.report.dropped == {"no output tokens": 2}
    assert "columns ignored: Model, Total tokens, Log Type" in trace.report.notes


def test_burstgpt_requests_of_one_second_may_be_spread(tmp_path):
    text = BURST + "".join(f"{second},m,1,1,2,l\n" for second in (0, 0, 1, 2, 2, 3))
    assert _csv(tmp_path, text, spread_ties=True).arrival_s.tolist() == [0, 0.5, 1, 2, 2.5, 3]


def test_burstgpt_sessions_think_from_the_end_of_an_answer(tmp_path):
    text = NEWER + "0,a,4.5,m,10,5,15,l\n1,b,1,m,10,5,15,l\n10,a,2,m,20,5,25,l\n11,a,,m,20,5,25,l\n"
    trace = _csv(tmp_path, text)
    assert trace.session == ["a", "b", "a", "a"] and trace.turn.tolist() == [1, 1, 2, 3]
    np.testing.assert_array_equal(trace.think_s, [np.nan, np.nan, 5.5, 0])  # the third began before the second ended
    without = _csv(tmp_path, "Timestamp,Session ID,Request tokens,Response tokens\n0,a,1,1\n3,a,1,1\n")
    np.testing.assert_array_equal(without.think_s, [np.nan, 3])
    assert any("from the arrival of the turn before" in note for note in without.report.notes)


@pytest.mark.parametrize(
    "row, problem",
    [
        ("-1,m,1,1,2,l", ":3: Timestamp is -1"),
        ("nan,m,1,1,2,l", ":3: Timestamp is nan"),
        ("1,m,0,1,1,l", ":3: Request tokens is 0, must be at least 1"),
        ("1,m,x,1,1,l", ":3: Request tokens is 'x', must be an integer"),
        ("1,m,1,-4,1,l", ":3: Response tokens is -4"),
        ("1,m,1", ":3: 3 fields, the header has 6"),
    ],
)
def test_a_malformed_burstgpt_row(tmp_path, row, problem):
    text = BURST + "0,m,1,1,2,l\n" + row + "\n"
    with pytest.raises(ValueError) as caught:
        _csv(tmp_path, text)
    assert f"log.csv{problem}" in str(caught.value)
    assert len(_csv(tmp_path, text, on_error="skip")) == 1


def _chat(chat, parent=-1, at=0.0, tokens=40, ids=(1, 2, 3), turn=1):
    row = {"chat_id": chat, "parent_chat_id": parent, "timestamp": at, "input_length": tokens, "output_length": 9}
    return row | {"type": "text", "turn": turn, "hash_ids": list(ids)}


def test_bailian_sessions_follow_the_parents(tmp_path):
    rows = [
        _chat(7, at=10.0),
        _chat(8, at=11.0, ids=(9, 8, 7)),
        _chat(9, 7, 14.5, 64, (1, 2, 5, 6), 2),
        _chat(12, 9, 20.0, 64, (1, 2, 5, 6), 3),
        _chat(13, 99, 21.0, 16, (9,), 4),  # its parent is not in the file
    ]
    trace = _jsonl(tmp_path, *rows)
    assert trace.arrival_s.tolist() == [0, 1, 4.5, 10, 11]
    assert trace.session == ["7", "8", "7", "7", "13"] and trace.turn.tolist() == [1, 1, 2, 3, 4]
    np.testing.assert_array_equal(trace.think_s, [np.nan, np.nan, 4.5, 5.5, np.nan])
    assert trace.prefix.shareable_tokens().tolist() == [32, 16, 64, 64, 16]
    assert "columns ignored: type" in trace.report.notes


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"hash_ids": [1, 2, 3, 4]}, "hash_ids has 4 entries"),
        ({"hash_ids": None}, None),
        ({"timestamp": None}, "timestamp is missing"),
        ({"parent_chat_id": -2}, "parent_chat_id is -2"),
        ({"chat_id": "x"}, "chat_id is 'x'"),
    ],
)
def test_a_malformed_bailian_row(tmp_path, change, problem):
    rows = _chat(1), _chat(2) | change
    if problem is None:
        assert len(_jsonl(tmp_path, *rows)) == 2
        return
    with pytest.raises(ValueError) as caught:
        _jsonl(tmp_path, *rows)
    assert "log.jsonl:2: " in str(caught.value) and problem in str(caught.value)


def test_azure_multimodal_is_packed_and_has_images(tmp_path):
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00+00:00,2,1800,7\n"
    text += "2024-10-15 00:00:00.125000+00:00,0,20,5"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    trace = open_trace("file", str(tmp_path / "t.csv.gz"))
    assert trace.arrival_s.tolist() == [0, 0.125] and trace.prompt_tokens.tolist() == [1800, 20]
    assert "columns ignored: NumImages" in trace.report.notes
