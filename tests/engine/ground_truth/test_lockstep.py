"""A recording replayed: the same decisions in every step, or the first step in which they are not the same."""

from pathlib import Path

import pytest

from engine.ground_truth.lockstep import lockstep
from engine.ground_truth.reading import read_recordings
from tests.engine.ground_truth.small import cached, chunked, edit, preempting


def replayed(folder: Path):
    (recording,) = read_recordings([folder])
    return lockstep(recording)


@pytest.mark.parametrize("made", [chunked, preempting, cached])
def test_decides_as_was_calculated_by_hand(made, tmp_path):
    found = replayed(made(tmp_path / "run"))
    assert str(found.difference) == "None" and found.requests == ()
    assert found.identical == found.steps > 1 and found.right


def test_times_do_not_matter_as_long_as_who_is_there_does_not_change(tmp_path):
    """Idle seconds between steps, and a gap in which nobody comes."""
    folder = chunked(tmp_path / "run")
    edit(folder / "clock.csv", "3,0.081,0.1,", "3,50.25,50.5,")
    edit(folder / "asked.csv", "C,0.02,0.0201,3,1,0.1,0.1,", "C,0.02,0.0201,3,1,50.5,50.5,")
    assert replayed(folder).right


@pytest.mark.parametrize(
    ("old", "new", "step", "field", "recorded", "ours"),
    [
        ('[["A", 1, 6], ["B", 4, 2]]', '[["A", 1, 6], ["B", 3, 2]]', 1, "scheduled", {"A": 1, "B": 3}, {"A": 1, "B": 4}),
        ('[["A", 1, 7], ["B", 1, 6]]', '[["B", 1, 6], ["A", 1, 7]]', 2, "scheduled", {"B": 1, "A": 1}, {"A": 1, "B": 1}),
        ('[["A", 1, 7], ["B", 1, 6]]', '[["A", 1, 8], ["B", 1, 6]]', 2, "computed", {"A": 8, "B": 6}, {"A": 7, "B": 6}),
        ('"admitted": ["A", "B"]', '"admitted": ["A"]', 0, "admitted", ["A"], ["A", "B"]),
        ('"free_blocks": 7', '"free_blocks": 6', 3, "free_blocks", 6, 7),
    ],
)
def test_a_step_that_was_altered_is_found(tmp_path, old, new, step, field, recorded, ours):
    folder = chunked(tmp_path / "run")
    edit(folder / "decided.jsonl", old, new)
    difference = replayed(folder).difference
    assert difference is not None and difference.step == step and field in difference.fields
    assert difference.vllm[field] == recorded and difference.simulator[field] == ours
    assert f"step {step}" in str(difference) and str(recorded) in str(difference) and str(ours) in str(difference)


def test_another_victim_is_found(tmp_path):
    folder = preempting(tmp_path / "run")
    edit(folder / "decided.jsonl", '"preempted": ["B"]', '"preempted": ["A"]')
    difference = replayed(folder).difference
    assert (difference.step, difference.fields) == (1, ("preempted",))
    assert (difference.vllm["preempted"], difference.simulator["preempted"]) == (["A"], ["B"])


def test_who_waits_is_compared(tmp_path):
    folder = chunked(tmp_path / "run")
    edit(folder / "clock.csv", "2,0.051,0.08,1,2", "2,0.051,0.08,0,2")
    difference = replayed(folder).difference
    assert (difference.step, difference.fields) == (2, ("waiting",))


def test_steps_that_are_missing_at_the_end_are_found(tmp_path):
    folder = chunked(tmp_path / "run")
    for name in ("clock.csv", "decided.jsonl"):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join(lines[:-1]) + "\n")
    found = replayed(folder)
    assert found.identical == 3 and found.difference.step == 3 and found.difference.vllm is None
    assert "wants step 3, and 3 are on record" in str(found.difference)


def test_a_step_too_many_is_found(tmp_path):
    folder = chunked(tmp_path / "run")
    with (folder / "clock.csv").open("a") as file:
        file.write("4,0.11,0.12,0,1\n")
    with (folder / "decided.jsonl").open("a") as file:
        file.write('{"parts": [["C", 1, 3]], "admitted": [], "preempted": [], "free_blocks": 7}\n')
    found = replayed(folder)
    assert found.identical == 4 and found.difference.step == 4 and found.difference.simulator is None


def test_the_table_of_requests_is_compared_too(tmp_path):
    folder = preempting(tmp_path / "run")
    edit(folder / "asked.csv", "0.148,1,0,", "0.148,2,0,")
    found = replayed(folder)
    assert found.difference is None and not found.right
    assert found.requests == ("request B: preemptions 2 on record, 1 replayed",)


def test_the_policy_of_the_recording_decides(tmp_path):
    """Last come, first served would have taken B first: the recording does not say so, and its first step tells."""
    folder = chunked(tmp_path / "run", policy={"name": "sjf"})
    text = (folder / "asked.csv").read_text().splitlines()
    predicted = [f"{line},{guess}" for line, guess in zip(text, ("predicted_output", "3", "2", "1"), strict=True)]
    (folder / "asked.csv").write_text("\n".join(predicted) + "\n")
    difference = replayed(folder).difference
    assert difference.step == 0 and difference.simulator["admitted"] == ["B", "A"]
