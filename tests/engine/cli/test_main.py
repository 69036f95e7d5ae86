"""`python -m engine`: its commands, their help, and no command at all."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.main import COMMANDS, main
from engine.options import RULES
from twin import __version__

ROOT = Path(__file__).resolve().parents[3]


def as_module(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "engine", *words], capture_output=True, text=True, env=environment, timeout=120
    )


def test_the_version():
    done = as_module("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"engine {__version__}\n", "")


def test_no_command_and_an_unknown_one():
    for words, said in (((), "no command"), (("rum",), "unknown command 'rum'; did you mean run?")):
        done = as_module(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"engine: {said}; the commands are run, scenario, oracle, profile, check\n"


def test_help_is_there_without_torch():
    code = "import sys; from engine.cli.main import main; main(['run', '--help']); sys.exit('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=120).returncode == 0


def test_the_overview_names_every_command(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: python -m engine <command>") and "example: python -m engine run" in printed
    assert re.findall(r"^  (\w+)  ", printed, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_is_readable_and_has_an_example(capsys, command):
    assert main([command, "--help"]) == 0
    output = capsys.readouterr()
    assert output.err == "" and output.out.startswith("usage: ") and max(map(len, output.out.splitlines())) <= 160
    assert f"example: python -m engine {command}" in output.out


def test_help_of_run_lists_every_option_of_the_engine_with_its_default(capsys):
    assert main(["run", "--help"]) == 0
    printed = capsys.readouterr().out
    options = [*RULES, *(f"sampling.{name}" for name in ("temperature", "top_p", "top_k", "n", "beam_width", "ignore_eos"))]
    for option in options:
        assert re.search(rf"^ *{re.escape(option)}=", printed, re.MULTILINE), option
    assert "attention=auto" in printed and "model=smollm2-135m" in printed
