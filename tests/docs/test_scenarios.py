"""docs/scenarios.md: its example does what the page says, and its tables name what the program knows."""

import json
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from twin.cli.main import main
from twin.sim import scenario_file

SECTIONS = {
    "cache": scenario_file.CACHE,
    "scheduler": scenario_file.SCHEDULER,
    "policy": {"name", "preempt_for_seat", *scenario_file.ROLES},
    "swap": scenario_file.SWAP,
}


def test_the_worked_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("short_of_blocks.yaml").write_text(blocks("scenarios", "yaml")[0])
    words = blocks("scenarios", "bash")[0].split()
    assert words[:3] == ["python", "-m", "twin"]
    assert main(words[3:]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [json.loads(line) for line in blocks("scenarios", "json")[0].splitlines()]


def test_every_option_and_every_key_is_in_the_tables():
    text = page("scenarios")
    for options in (*SECTIONS.values(), scenario_file.REQUEST, scenario_file.TOP - {"requests"}):
        for option in options:
            assert f"`{option}`" in text or f"`{option}:" in text, option
    for line in blocks("scenarios", "json")[0].splitlines():
        for key in json.loads(line).keys() - {"summary"}:
            assert f"`{key}`" in text, key
