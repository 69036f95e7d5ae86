"""docs/plan.md: its commands work and give the figures that the page states."""

import json
import shlex

import pytest

from tests.docs.pages import blocks, page
from twin.cli.compose import compose
from twin.cli.main import main

COMMANDS = [line for block in blocks("plan", "bash") for line in block.splitlines()]


def planned(command: str, capsys: pytest.CaptureFixture[str]) -> dict:
    words = shlex.split(command)
    assert words[:4] == ["python", "-m", "twin", "plan"]
    assert main([*words[3:], "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_commands_give_the_figures_of_the_page(capsys: pytest.CaptureFixture[str]):
    plans = [planned(command, capsys) for command in COMMANDS]
    assert len(plans[1]["would_fit"]) >= 8
    assert [plan["concurrent_requests"]["4096"] for plan in plans[2:5]] == [20, 19, 21]
    poor, good = plans[5:]
    assert (poor["kv_tokens"], good["kv_tokens"]) == (36_621, 82_397)
    for tokens in (36_621, 82_397):
        assert f"{tokens:,}" in page("plan")


def test_every_option_is_explained():
    for option in compose([], root="plan").values["plan"]:
        assert f"plan.{option}" in page("plan")
