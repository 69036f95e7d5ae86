"""Files of texts (ShareGPT, OpenAI batch, vLLM datasets), whose lengths are counted, and results of vLLM's benchmark."""

import json

import numpy as np
import pytest

from traces import open_trace


def _open(tmp_path, text, **options):
    path = tmp_path / "file.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return open_trace("file", str(path), **options)


def _lines(tmp_path, *rows, **options):
    return _open(tmp_path, "\n".join(map(json.dumps, rows)), **options)


def _talk(*texts, first="human"):
    speakers = ["human", "gpt"] if first == "human" else ["gpt", "human"]
    return {"id": "x", "conversations": [{"from": speakers[i % 2], "value": text} for i, text in enumerate(texts)]}


def test_sharegpt_turns_hold_what_was_said_before(tmp_path):
    trace = _open(tmp_path, [_talk("a" * 80, "b" * 40, "c" * 41, "d" * 9), _talk("e" * 3, "f"), _talk("no answer")])
    assert trace.prompt_tokens.tolist() == [20, 41, 1] and trace.output_tokens.tolist() == [10, 3, 1]
    assert trace.session == ["1", "1", "2"] and trace.turn.tolist() == [1, 2, 1] and not trace.arrival_s.any()
    assert trace.prefix.shareable_tokens().tolist() == [16, 16, 0]
    assert trace.report.dropped == {"conversations without an answer to something": 1}
    assert any("a token for each 4 characters" in note for note in trace.report.notes)


def test_sharegpt_first_turns_alone_and_answers_to_nothing(tmp_path):
    trace = _open(tmp_path, [_talk("a" * 80, "b" * 40, "c" * 41, "d" * 9), _talk("x", "y", "z", first="gpt")], turns="first")
    assert trace.prompt_tokens.tolist() == [20, 2] and trace.session is None and trace.prefix is None


def test_files_without_times_are_spaced_evenly_at_a_rate(tmp_path):
    talks = [_talk("a", "b"), _talk("c", "d"), _talk("e", "f")]
    assert _open(tmp_path, talks, rate=2.0).arrival_s.tolist() == [0, 0.5, 1.0]


def test_sharegpt_of_one_line_and_of_many_and_as_jsonl_is_the_same(tmp_path):
    talks = [_talk("a" * n, "b") for n in range(1, 60)]
    one = _open(tmp_path, talks)
    for text in (json.dumps(talks, indent=2), "\n".join(map(json.dumps, talks))):
        assert _open(tmp_path, text).prompt_tokens.tolist() == one.prompt_tokens.tolist()


def test_a_conversation_longer_than_what_is_read_at_once(tmp_path):
    trace = _open(tmp_path, [_talk("ä" * 3_000_000, "b"), _talk("c" * 8, "d")])
    assert trace.prompt_tokens.tolist() == [750_000, 2]


@pytest.mark.parametrize(
    "text, problem",
    [
        ('[\n{"id": 1, "conversations": [{"from": "human", "value": "x"}]},\n7]', ":3: a conversation must be an object"),
        ('[{"conversations": 7}]', ":1: a conversation must be an object with a list conversations"),
        ('[{"conversations": [7]}]', ":1: a message must be an object"),
        ('[{"conversations": [{"from": "human", "value": 7}]}]', ":1: the content of a message must be text"),
        ('[{"conversations": []},\n{"conversations": [}', ":2: not JSON: Expecting value"),
        ('[{"conversations": []}\n', ":2: ends before the array does"),
        ('[{"conversations": []}]\n[', ":2: goes on after the array"),
        ('[{"conversations": [{"from": "hu', ":1: not JSON: Unterminated string"),
        ('[{"conversations": []}]', "no requests left of 0 rows"),
    ],
)
def test_a_malformed_conversation_is_named_by_line(tmp_path, text, problem):
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, text)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_a_tokenizer_counts(tmp_path):
    with pytest.raises(ValueError, match="must be the path of a tokenizer.json"):
        _open(tmp_path, [_talk("a", "b")], tokenizer=str(tmp_path / "none.json"))
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    rules = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    trace = _open(tmp_path, [_talk("one two three", "four")], tokenizer=str(tmp_path / "tokenizer.json"))
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (3, 1)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="trace.tokenizer="):
        _open(tmp_path, [_talk("a", "b")], tokenizer=str(tmp_path / "tokenizer.json"))


RUN = {
    "date": "20260101", "completed": 2, "total_input_tokens": 30,
    "input_lens": [10, 20, 5], "output_lens": [3, 4, 0], "start_times": [100.5, 100.25, 101], "ttfts": [0.1, 0.2, 0],
}  # fmt: skip


def test_results_of_vllm(tmp_path):
    trace = _open(tmp_path, RUN)
    assert trace.arrival_s.tolist() == [0, 0.25] and trace.prompt_tokens.tolist() == [20, 10]
    assert trace.report.dropped == {"no output tokens": 1}
    untimed = _open(tmp_path, {name: value for name, value in RUN.items() if name != "start_times"}, rate=4)
    assert untimed.arrival_s.tolist() == [0, 0.25]


def test_results_of_several_runs(tmp_path):
    runs = RUN, RUN | {"input_lens": [1, 2, 3]}
    assert _lines(tmp_path, *runs, run=2).prompt_tokens.tolist() == [2, 1]
    with pytest.raises(ValueError, match="holds 2 runs: say which, trace.run=1 to 2"):
        _lines(tmp_path, *runs)
    with pytest.raises(ValueError, match="trace.run is 3, the file holds 2 runs"):
        _lines(tmp_path, *runs, run=3)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"input_lens": None}, ":1: no list input_lens: run vllm bench serve with --save-detailed"),
        ({"output_lens": [1]}, ":1: the lists have different lengths: input_lens 3, output_lens 1"),
        ({"input_lens": [1, "x", 2]}, ":1, request 2: input_lens is 'x', must be an integer"),
        ({"input_lens": [1, 0, 2]}, ":1, request 2: input_lens is 0"),
        ({"start_times": [1, 2, float("nan")]}, ":1, request 3: start_times is nan"),
    ],
)
def test_malformed_results(tmp_path, change, problem):
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, RUN | change)
    assert problem in str(caught.value)


def _batch(name, content="a" * 40, **body):
    return {"custom_id": name, "method": "POST", "body": {"messages": [{"role": "user", "content": content}], **body}}


def test_an_openai_batch(tmp_path):
    parts = [{"type": "text", "text": "a" * 8}, {"type": "image_url", "image_url": {"url": "x"}}]
    rows = _batch("one", max_tokens=7, n=2), _batch("two", parts, max_completion_tokens=9)
    trace = _lines(tmp_path, *rows)
    assert trace.request_id == ["one", "two"] and trace.prompt_tokens.tolist() == [10, 2]
    assert trace.output_tokens.tolist() == trace.max_tokens.tolist() == [7, 9] and trace.n.tolist() == [2, 1]
    assert any("as long as max_tokens allows" in note for note in trace.report.notes)


def test_answers_without_a_length_need_the_option(tmp_path):
    with pytest.raises(ValueError, match="file.json:1: tells no length of the answer: give trace.output_tokens"):
        _lines(tmp_path, _batch("one"))
    trace = _lines(tmp_path, _batch("one"), _batch("two", max_tokens=5), output_tokens=64)
    assert trace.output_tokens.tolist() == [64, 5] and trace.max_tokens.tolist() == [-1, 5]


def test_a_custom_dataset_of_vllm(tmp_path):
    trace = _lines(tmp_path, {"prompt": "a" * 10, "output_tokens": 3}, {"prompt": [1, 2]}, output_tokens=8)
    assert trace.prompt_tokens.tolist() == [3, 2] and trace.output_tokens.tolist() == [3, 8]
    with pytest.raises(ValueError, match="trace.output_tokens is 0"):
        _lines(tmp_path, {"prompt": "a"}, output_tokens=0)


@pytest.mark.parametrize(
    "row, problem",
    [
        ({"custom_id": "x", "body": 7}, "body must be an object"),
        ({"custom_id": "x", "body": {"messages": [7]}}, "messages must be a list of objects"),
        ({"custom_id": "x", "body": {"max_tokens": 4}}, "the prompt must be text or a list of token ids"),
        (_batch("x", 7, max_tokens=4), "the content of a message must be text or a list of parts"),
        (_batch("x", max_tokens=0), "must be at least 1"),
        (_batch("x", "", max_tokens=4), "the prompt is 0, must be at least 1"),
        (_batch("x", max_tokens=4, n=0), "n is 0"),
    ],
)
def test_a_malformed_batch_line(tmp_path, row, problem):
    with pytest.raises(ValueError) as caught:
        _lines(tmp_path, _batch("good", max_tokens=4), row)
    assert "file.json:2: " in str(caught.value) and problem in str(caught.value)
    assert len(_lines(tmp_path, _batch("good", max_tokens=4), row, on_error="skip")) == 1


def test_halves_of_characters_are_no_text(tmp_path):
    with pytest.raises(ValueError, match="custom_id is not text: half of a character"):
        _open(tmp_path, '{"custom_id": "\\ud800", "body": {"prompt": "abc", "max_tokens": 3}}')


def test_nothing_of_a_reader_is_lost_on_the_way_through_parquet(tmp_path):
    from traces.write import write_trace

    trace = _open(tmp_path, [_talk("a" * 80, "b" * 40, "c" * 41, "d" * 9), _talk("e" * 3, "f")])
    write_trace(trace, tmp_path / "t.parquet")
    same = open_trace("file", str(tmp_path / "t.parquet"))
    for name, values in trace.columns().items():
        np.testing.assert_array_equal(values, same.columns()[name])
    assert same.prefix.shareable_tokens().tolist() == trace.prefix.shareable_tokens().tolist()
