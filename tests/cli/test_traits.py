"""A policy that looks at users, deadlines or priorities is told of a trace that has none."""

from pathlib import Path

import pytest

from twin.cli.main import main

SMALL = [
    "system=textbook", "latency=linear", "latency.base_s=1", "trace=synthetic", "trace.arrivals=burst()",
    "trace.prompt_tokens=16", "trace.output_tokens=3", "trace.num_requests=6", "output.figures=false", "output.report=false",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def notes(capsys, *words: str) -> list[str]:
    assert main(["run", *SMALL, *words]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: policy")]


@pytest.mark.parametrize(
    ("words", "named", "trait", "option"),
    [
        (["policy=rpm"], "policy=rpm", "user", "trace.users"),
        (["policy=edf"], "policy=edf", "deadline_s", "trace.deadline_s"),
        (["policy.victim=lowest_priority"], "policy.victim=lowest_priority", "priority", "trace.priority"),
    ],
)
def test_what_no_request_has_is_told_with_the_option_that_gives_it(capsys, words, named, trait, option):
    (note,) = notes(capsys, *words)
    assert note.startswith(f"note: {named} asks for {trait}, but no request of this trace has") and f"({option}=...)" in note


@pytest.mark.parametrize(
    "words",
    [
        ["policy=rpm", "trace.users=uniform(1,2)"],
        ["policy=edf", "trace.deadline_s=3"],
        ["policy.victim=lowest_priority", "trace.priority=uniform(1,2)"],
        ["policy=srpt", "predictor=oracle"],
    ],
)
def test_nothing_is_told_where_it_is_there_or_nobody_asks(capsys, words):
    assert notes(capsys, *words) == []
