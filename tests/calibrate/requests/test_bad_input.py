"""A user's mistake is one line that says what, where, and what would be right."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.calibrate.requests.logs import made_log, options_of, write_csv
from twin.calibrate.requests import command
from twin.calibrate.requests.reading import read_log

WORDS = ("scheduler.max_num_batched_tokens=2048", "scheduler.max_num_seqs=64", "cache.num_gpu_blocks=100000")
HEADER = "arrival_s,prompt_tokens,output_tokens,first_token_s,finish_s"


def rows(count: int = 12) -> list[str]:
    return [f"{i},100,11,{i + 0.1},{i + 0.4}" for i in range(count)]


def said(path: Path, text: str, columns: str = "") -> str:
    path.write_text(text)
    with pytest.raises(ValueError) as raised:
        read_log(path, columns)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_a_missing_column_is_named(tmp_path: Path):
    lines = [line.rsplit(",", 1)[0] for line in [HEADER, *rows()]]
    assert "no column finish_s" in said(tmp_path / "log.csv", "\n".join(lines))


def test_too_few_requests(tmp_path: Path):
    assert "3 requests with first_token_s and finish_s; a calibration needs 10" in said(
        tmp_path / "log.csv", "\n".join([HEADER, *rows(3)])
    )


def test_stamps_out_of_order_are_told_with_their_row(tmp_path: Path):
    lines = rows()
    lines[4] = "4,100,11,4.9,4.4"
    message = said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))
    assert "row 6: finish_s is 0.5 s before first_token_s" in message


@pytest.mark.parametrize(("cell", "what"), [("x", "not a number"), ("inf", "must be finite"), ("0", "at least 1")])
def test_cells_that_are_no_numbers(tmp_path: Path, cell: str, what: str):
    lines = rows()
    lines[2] = f"2,{cell},11,2.1,2.4"
    message = said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))
    assert "row 4: prompt_tokens" in message and what in message


def test_a_token_and_a_half_is_none(tmp_path: Path):
    lines = rows()
    lines[2] = "2,100.5,11,2.1,2.4"
    message = said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))
    assert "row 4: prompt_tokens is 100.5, must be a whole number" in message


def test_a_request_that_was_logged_twice(tmp_path: Path):
    lines = [f"{'r3' if place == 7 else f'r{place}'},{line}" for place, line in enumerate(rows())]
    message = said(tmp_path / "log.csv", "\n".join([f"request_id,{HEADER}", *lines]))
    assert "row 9: request_id r3 again, as in row 5" in message


def test_a_folder_that_is_not_there_is_told_before_the_work(tmp_path: Path):
    with pytest.raises(ValueError, match="no such folder"):
        command.main(options_of(tmp_path / "nothing.csv", tmp_path / "none" / "mine.yaml"))


def test_an_empty_arrival(tmp_path: Path):
    lines = rows()
    lines[1] = ",100,11,1.1,1.4"
    assert "row 3: arrival_s is empty" in said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))


def test_milliseconds_taken_for_seconds(tmp_path: Path):
    lines = [f"{1000 * i},100,11,{1000 * i + 100},{1000 * i + 400}" for i in range(12)]
    assert "a token takes 30 s" in said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))


def test_stamps_of_another_clock_without_a_queue_stamp(tmp_path: Path):
    lines = [f"{1.7e9 + i},100,11,{i + 0.1},{i + 0.4}" for i in range(12)]
    assert "two clocks" in said(tmp_path / "log.csv", "\n".join([HEADER, *lines]))


def test_a_row_of_another_width(tmp_path: Path):
    assert "line 4: not as many cells" in said(tmp_path / "log.csv", "\n".join([HEADER, *rows(2), "1,2,3", *rows()]))


def test_a_column_map_that_names_what_is_not_there(tmp_path: Path):
    text = "\n".join([HEADER, *rows()])
    assert "the file has no column t0" in said(tmp_path / "log.csv", text, "arrival_s:t0")
    assert "must be OURS:THEIRS" in said(tmp_path / "log.csv", text, "came:arrival_s")


def test_lines_that_are_not_json(tmp_path: Path):
    assert "line 2: not JSON" in said(tmp_path / "log.jsonl", '{"arrival_s": 0}\n{"arrival_s": \n')


def test_results_of_bench_serve_without_details(tmp_path: Path):
    text = json.dumps({"ttfts": [0.1], "input_lens": [5], "output_lens": [3]})
    assert "no itls, start_times" in said(tmp_path / "log.json", text)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(ValueError, match="no such file"):
        read_log(tmp_path / "nothing.csv")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("holdout=third",), "holdout=third: must be half or none"),
        (("cold=few",), "cold=few: must be a number"),
        (("terms=constant,magic",), "no term magic; there are constant"),
        (("model=llama3.1-8b",), "gpu: missing"),
        (("tables=somewhere",), "give model=... and gpu=... too"),
        (("policy=sjf",), "as served by fcfs"),
        (("cache.num_gpu_blocks=10",), "was served, but could not have been"),
        (("model.max_model_len=20",), "was served, but could not have been"),
        (("prompts=nothing.jsonl",), "prompts=nothing.jsonl: no such file"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, words: tuple[str, ...], what: str):
    log, _ = made_log(count=30)
    path = write_csv(log, tmp_path / "log.csv")
    with pytest.raises(ValueError) as raised:
        command.main(options_of(path, tmp_path / "to.yaml", *WORDS, *words))
    assert what in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "to.yaml").exists()


def test_prompts_of_other_lengths(tmp_path: Path):
    log, _ = made_log(count=12)
    path = write_csv(log, tmp_path / "log.csv")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps([1] * int(length)) for length in log.prompt_tokens[:-1]))
    with pytest.raises(ValueError, match="12 requests, but the prompts of 11"):
        read_log(path, prompts=prompts)
    prompts.write_text("\n".join(json.dumps([1] * int(length + 1)) for length in log.prompt_tokens))
    with pytest.raises(ValueError, match="row 2: prompt_tokens is"):
        read_log(path, prompts=prompts)


def test_a_log_with_two_clocks_is_joined_by_its_queue(tmp_path: Path):
    log, _ = made_log(count=20)
    log.queued_s[:] = log.arrival_s + np.linspace(0, 0.001, 20)
    for name in ("queued_s", "scheduled_s", "first_token_s", "finish_s"):
        getattr(log, name)[:] -= 1.7e9
    read = read_log(write_csv(log, tmp_path / "log.csv"))
    assert "another clock" in read.notes[0]
    assert read.ttft_s == pytest.approx(log.ttft_s + 1.7e9, abs=1e-5)
