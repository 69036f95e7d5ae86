"""Signals: the results so far are saved, nothing half-written stays, and the exit status says which it was."""

import json
import os
import signal
from pathlib import Path

import pytest

import twin.results.figures
import twin.results.save
from tests.cli.commands import SMALL
from twin.cli import signals
from twin.cli.main import main

SIGNALLING = '''import os

from twin.policy import Policy


class Signalling(Policy):
    """Its process gets a signal after a while."""

    def __init__(self, number: int, times: int = 1):
        self.calls, self.number, self.times = 0, number, times

    def order(self, request, view):
        self.calls += 1
        if 10 < self.calls <= 10 + self.times:
            os.kill(os.getpid(), self.number)
        return request.arrival_s
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "signalling.py").write_text(SIGNALLING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names() -> list[str]:
    return sorted(str(path.relative_to("out")) for path in Path("out").rglob("*"))


NUMBERS = ["config.yaml", "requests.parquet", "steps.parquet", "summary.json"]


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up")],
)
def test_a_signal_saves_what_is_done(capsys, number, status, words):
    policy = ["policy=signalling", f"policy.number={int(number)}", "output.decisions=true", "hydra.run.dir=out"]
    before = signal.getsignal(number)
    assert main(["run", *SMALL, *policy]) == status
    assert capsys.readouterr().err == f"twin run: {words}; what was done until then is saved\n"
    assert json.loads(Path("out/summary.json").read_text())["complete"] is False
    assert names() == sorted([*NUMBERS, "decisions.jsonl.gz"])
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("moment", ["requests_table", "write_parquet"])
def test_ctrl_c_while_the_numbers_are_saved_costs_none_of_them(monkeypatch, capsys, moment):
    original = getattr(twin.results.save, moment)

    def pressed(*arguments):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(twin.results.save, moment, pressed)
    assert main(["run", *SMALL, "output.report=true", "hydra.run.dir=out"]) == 130
    assert names() == NUMBERS
    assert json.loads(Path("out/summary.json").read_text())["complete"] is True
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "twin run: interrupted while the pictures were made; they are left out, the numbers are saved"


def test_ctrl_c_again_while_the_pictures_are_made_leaves_the_numbers(monkeypatch, capsys):
    def pressed(*_):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not interrupted")

    monkeypatch.setattr(twin.results.figures, "figures", pressed)
    words = ["policy=signalling", f"policy.number={int(signal.SIGINT)}", "output.figures=true", "hydra.run.dir=out"]
    assert main(["run", *SMALL, *words]) == 130
    assert names() == NUMBERS and json.loads(Path("out/summary.json").read_text())["complete"] is False
    assert capsys.readouterr().err == "twin run: interrupted; what was done until then is saved, without pictures\n"


def test_seeds_interrupted_are_summarised_as_far_as_they_went(capsys, own_folder):
    file = own_folder / "policies" / "signalling.py"
    file.write_text(SIGNALLING.replace("10 < self.calls <= 10 + self.times", "view.limits and _third(self)") + THIRD)
    words = ["policy=signalling", f"policy.number={int(signal.SIGINT)}", "seeds=5", "hydra.run.dir=out"]
    assert main(["run", *SMALL, *words]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("twin run: seed 2: interrupted") and "2 of 5 seeds" in line
    together = json.loads(Path("out/summary.json").read_text())
    assert (together["complete"], together["seeds"], together["finished"]) == (False, 2, 20)
    assert json.loads(Path("out/seed=2/summary.json").read_text())["complete"] is False


THIRD = """

_made = []


def _third(policy):
    if policy not in _made:
        _made.append(policy)
    return len(_made) == 3 and policy.calls == 10
"""


def test_a_held_block_ends_before_the_signal_counts():
    done = []
    with signals.interruptible():
        with pytest.raises(KeyboardInterrupt):
            with signals.held():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("whole")
        assert done == ["whole"] and signals.exit_status() == 128 + 15


def test_a_signal_that_the_parent_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
