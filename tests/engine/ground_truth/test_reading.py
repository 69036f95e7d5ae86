"""Recordings from files: found by content, refused in one line where they are cut off or not what they should be."""

import json
import shutil
from pathlib import Path

import pytest

from engine.ground_truth.reading import read_recordings
from engine.ground_truth.recording import Part, RecordingError, features_of
from tests.engine.ground_truth.small import cached, chunked, edit
from twin.core.batch import Features


def refusal(*folders: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        read_recordings(folders)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_run_is_its_folder_and_several_are_their_parents(tmp_path):
    for name in ("one", "two"):
        chunked(tmp_path / "runs" / name)
    (tmp_path / "runs" / "README.md").write_text("what these are\n")
    (tmp_path / "runs" / "model.json").write_text('{"base_s": 0.1}')
    (tmp_path / "runs" / "empty").mkdir()
    assert [run.name for run in read_recordings([tmp_path / "runs"])] == ["one", "two"]
    assert [run.name for run in read_recordings([tmp_path / "runs" / "two"])] == ["two"]
    (run, _) = read_recordings([tmp_path / "runs" / "one", tmp_path / "runs" / "two"])
    assert [request.id for request in run.requests] == ["A", "B", "C"]
    assert run.steps[1].parts == (Part("A", 1, 6), Part("B", 4, 2))
    assert run.settings.limits.num_blocks == 8 and run.settings.policy == {"name": "fcfs"}


def test_vllms_own_null_block_is_not_usable(tmp_path):
    folder = chunked(tmp_path / "run")
    edit(folder / "about.json", '"usable_blocks": 8', '"num_gpu_blocks": 9')
    assert read_recordings([folder])[0].settings.limits.num_blocks == 8


def test_a_name_may_have_vllms_suffix(tmp_path):
    folder = chunked(tmp_path / "run")
    text = (folder / "decided.jsonl").read_text()
    (folder / "decided.jsonl").write_text(text.replace('"A"', '"A-0-9f3c"'))
    assert read_recordings([folder])[0].steps[0].admitted == ("A", "B")


def test_features_by_hand():
    """A chunk of 4 on 2 computed ones of a prompt of 8, a decode at 10, and 5 recomputed tokens of a prompt of 3."""
    parts = (Part("chunk", 4, 2), Part("decode", 1, 10), Part("again", 5, 0))
    features = features_of(parts, {"chunk": 8, "decode": 7, "again": 3})
    assert features == Features(3, 9, 1, 6 + 11 + 5, 6 + 5, 4 * (2 + 2.0) + 5 * 2.5, 2)


def test_the_last_token_of_a_prompt_is_prefill():
    assert features_of((Part("last", 1, 7),), {"last": 8}).prefill_tokens == 1


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("asked.csv", "C,0.02,0.0201,3,1,0.1,0.1,0,0,", "C,0.02,0.0201,3", "asked.csv, line 4: 4 values for 10 columns"),
        ("asked.csv", "C,0.02,0.0201,3,1,0.1,0.1", "C,0.02,0.0201,3,1,0.1,", "line 4: finish_s is empty; it must be"),
        ("asked.csv", "A,0,0,6,3", "A,0,0,six,3", "asked.csv, line 2: prompt_tokens is 'six'; it must be a number"),
        ("asked.csv", "A,0,0,6,3", "A,0,0,6,2.5", "output_tokens is 2.5; it must be a whole number of at least 1"),
        ("asked.csv", "A,0,0,6,3,0.03", "A,0,0,6,3,0.9", "line 2: finish_s 0.08 is before first_token_s 0.9"),
        ("asked.csv", "B,0,0,6,2", "A,0,0,6,2", "asked.csv, line 3: a second request A"),
        ("asked.csv", ",added_s,", ",aded_s,", "no column added_s, which a table of requests needs; is it aded_s?"),
        ("clock.csv", "3,0.081,0.1,0,1", "3,0.08", "clock.csv, line 5: 2 values for 5 columns; is the file cut off?"),
        ("clock.csv", "\n3,0.081,0.1,0,1", "", "clock.csv has 3 steps, "),
        ("clock.csv", "2,0.051", "2,0.021", "line 4: the step begins at 0.021 s, before the one above it"),
        ("clock.csv", "2,0.051,0.08", "2,0.051,0.05", "line 4: the step ends at 0.05 s, and begins at 0.051 s"),
        ("clock.csv", ",running", ",runing", "no column running, which a table of steps needs; is it runing?"),
        ("decided.jsonl", '["C"], "preempted": [], "free_blocks": 7}', '["C"], "p', "line 4: not JSON; is the file cut"),
        ("decided.jsonl", '["C", 3, 0]', '["D", 3, 0]', "line 4: there is no request 'D' in the table of requests"),
        ("decided.jsonl", '["C", 3, 0]', '["C", 3]', "line 4: a part is [request, tokens, computed before], not ['C', 3]"),
        ("decided.jsonl", '"admitted": ["C"], ', "", "line 4: admitted must be a list, not None"),
        ("decided.jsonl", ', "free_blocks": 7', "", "line 4: free_blocks is missing, in the file of steps too"),
        ("about.json", '"max_model_len": 64,', "", "about.json: says nothing of max_model_len"),
        ("about.json", '"usable_blocks": 8,', "", "says nothing of usable_blocks"),
        ("about.json", '"block_size": 4', '"block_size": 0', "block_size is 0; it must be a whole number of at least 1"),
        ("about.json", '"prefix": false', '"prefix": true', "not every request has its prompt_ids"),
        ("about.json", '"prefix": false', '"prefix": "no"', "prefix must be true or false, not 'no'"),
        ("about.json", '"block_size": 4', f'"block_size": {10**400}', "about.json: block_size is 1000"),
        ("asked.csv", "C,0.02", f"{'C' * 200_000},0.02", "asked.csv, line 4: field larger than field limit"),
        ("decided.jsonl", '["C", 3, 0]', "[" * 100_000, "decided.jsonl, line 4: not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_line(tmp_path, file, old, new, told):
    folder = chunked(tmp_path / "run")
    edit(folder / file, old, new)
    assert told in refusal(folder)


def test_bytes_that_are_no_text_are_told_where_they_stand(tmp_path):
    """Far from the beginning, by which a file is known."""
    file = chunked(tmp_path / "run") / "asked.csv"
    file.write_bytes(file.read_bytes().replace(b"\nC,", b"\n" * 20_000 + b"\xff,"))
    assert "there is no request 'C' in the table of requests" in refusal(file.parent)


def test_settings_that_are_cut_off(tmp_path):
    folder = chunked(tmp_path / "run")
    text = (folder / "about.json").read_text()
    (folder / "about.json").write_text(text[: text.index('"max_model_len"')])
    assert "about.json: not JSON; is the file cut off?" in refusal(folder)


def test_prompts_are_as_long_as_the_table_says(tmp_path):
    folder = cached(tmp_path / "run")
    edit(folder / "asked.csv", "B,0.04,0.04,10", "B,0.04,0.04,11")
    assert "prompt_tokens is 11, the file of prompts has 10 ids of B" in refusal(folder)


@pytest.mark.parametrize("file", ["asked.csv", "clock.csv", "decided.jsonl", "about.json"])
def test_a_file_that_is_missing(tmp_path, file):
    folder = chunked(tmp_path / "run")
    (folder / file).unlink()
    assert f"{folder}: no file of " in refusal(folder)


def test_two_files_of_a_kind(tmp_path):
    folder = chunked(tmp_path / "run")
    shutil.copy(folder / "clock.csv", folder / "clock2.csv")
    assert "two files of steps: clock.csv and clock2.csv" in refusal(folder)


def test_folders_that_hold_no_run(tmp_path):
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "no recorded run in it" in refusal(tmp_path)
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "list.json").write_text(json.dumps([1, 2]))
    assert "no recorded run in it" in refusal(tmp_path)


def test_two_runs_of_one_name(tmp_path):
    one, two = chunked(tmp_path / "a" / "run"), chunked(tmp_path / "b" / "run")
    assert "two runs of one name" in refusal(one, two)
