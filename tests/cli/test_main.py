"""Commands, help, version and exit statuses, as CONTRACT section 1 has them."""

import subprocess
import sys

import pytest

from twin import __version__
from twin.cli.main import COMMANDS, main


def python(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)


def test_version_and_overview(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"twin {__version__}\n"
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert all(command in overview for command in COMMANDS) and "example: python -m twin" in overview


@pytest.mark.parametrize(
    ("words", "said"), [([], "no command"), (["rum"], "unknown command 'rum'; did you mean run?"), (["-x"], "'-x'")]
)
def test_no_or_unknown_command_is_one_line_with_the_list(capsys, words, said):
    assert main(words) == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert said in line and line.endswith(f"; the commands are {', '.join(COMMANDS)}") and output.out == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_help_with_its_options_and_one_example(capsys, command):
    assert main([command, "--help"]) == 0
    output = capsys.readouterr()
    assert f"usage: python -m twin {command}" in output.out and output.err == ""
    assert output.out.count("example: python -m twin") == 1


def test_help_of_run_shows_groups_options_defaults_and_the_policys_parameters(capsys, tmp_path, monkeypatch):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "mine.py").write_text(
        "from typing import Literal\n\nfrom twin.policy import Policy\n\n\n"
        'class Mine(Policy):\n    """Biggest first."""\n\n'
        '    def __init__(self, reserve: Literal["max", "pow2"] = "max", share: float = 0.5): ...\n'
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "policy=mine", "system=textbook", "--help"]) == 0
    text = capsys.readouterr().out
    assert "system=textbook" in text and "engine textbook vllm vllm-0.11 vllm-0.21 vllm-0.32 vllm-0.33 vllm_v0" in text
    assert "scheduler.max_num_seqs=256" in text and "seats: how many requests may run at once" in text
    assert "scheduler.async_scheduling=false" in text
    assert "policy=mine (Mine of " in text and "Biggest first." in text
    assert "policy.reserve=max" in text and "max|pow2" in text and "policy.share=0.5" in text


def test_the_version_imports_next_to_nothing():
    done = python("-X", "importtime", "-m", "twin", "--version")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout == f"twin {__version__}\n"
    assert not imported & {"numpy", "pandas", "hydra", "rich", "yaml", "simpy", "importlib.metadata", "argparse"}


def test_a_mistake_is_one_line_without_traceback_and_exit_2():
    done = python("-m", "twin", "run", "polcy=fcfs")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("twin run: polcy: no such option; did you mean policy?")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("choice", ["latency=table", "latency=replay", "model=huggingface"])
def test_help_tells_of_an_option_that_must_be_given(capsys, choice):
    assert main(["run", choice, "--help"]) == 0
    assert f"{choice.partition('=')[0]}.path=???" in capsys.readouterr().out
