"""`engine check` as a user calls it."""

import re

import pytest
import torch

from engine.checks import everything
from engine.checks.case import Wrong
from engine.cli.main import main


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_machine_that_computes_rightly(capsys: pytest.CaptureFixture):
    assert main(["check", "model=tiny", "engine.device=cpu", "engine.threads=1"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("cpu: ")
    for row in (
        r"attention=torch +fp32, all kinds \(19 steps\) +\S+e-0\d +2.0e-05 +passed", r"attention=torch +tiny \(2 steps\) ",
        r"block transfers .* passed", r"model, qwen3 +bf16 +\S+ +1.0e-01 +passed", r"choice of tokens .* passed",
        r"not here: attention=cuda: the model is on cpu",
    ):  # fmt: skip
        assert re.search(f"^{row}", out, re.MULTILINE), row


def test_a_failure_is_told_and_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    def wrong(device: torch.device) -> None:
        raise Wrong("row 3 draws token 5, but 7 alone")

    monkeypatch.setattr(everything, "check_sampling", wrong)
    assert main(["check", "model=tiny", "engine.device=cpu", "engine.threads=1"]) == 1
    out, err = capsys.readouterr()
    assert re.search("^choice of tokens .* failed", out, re.MULTILINE)
    assert err == (
        "engine check: failed on cpu: choice of tokens, same numbers, same tokens: row 3 draws token 5, but 7 alone\n"
    )


@pytest.mark.parametrize(
    "word, told",
    [
        ("engine.device=tpu", "engine.device=tpu: must be auto, cpu, cuda or cuda:NUMBER"),
        ("engine.device=meta", "engine.device=meta: must be auto, cpu, cuda or cuda:NUMBER"),
        ("engine.device=cuda:99", "engine.device=cuda:99: torch finds"),
        ("cache.kv_cache_dtype=int3", "cache.kv_cache_dtype=int3: must be"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys: pytest.CaptureFixture, word: str, told: str):
    assert main(["check", word]) == 2
    err = capsys.readouterr().err
    assert err.startswith("engine check: ") and told in err and err.count("\n") == 1


def test_help_names_an_example(capsys: pytest.CaptureFixture):
    assert main(["check", "--help"]) == 0
    assert "example: python -m engine check" in capsys.readouterr().out
