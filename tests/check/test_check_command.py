"""`twin check` as a user meets it."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import policies
from tests.policies import bad
from twin.cli.main import main

BAD = Path(bad.__file__).parent


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_policy_that_fails_is_told_why_and_how_to_see_it_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["check", "policy=takes_twice", f"policy_path={BAD}", "check.quick=true"]) == 1
    out, err = capfd.readouterr()
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "failed" in rows["adversarial"] and "passed" in rows["source"] and "not run" in rows["cost"]
    assert "twin check: policy=takes_twice failed: adversarial: scenario a single request: policy TakesTwice, plan 2 " in err
    assert "a plan may give tokens to a request once: A has 1 already" in err
    again = next(line for line in err.splitlines() if "play it again" in line)
    assert again.endswith(f"python -m twin scenario outputs/check/takes_twice/a-single-request.yaml policy_path={BAD}")
    assert not (tmp_path / "cache").exists()  # no certificate

    assert main(["scenario", "outputs/check/takes_twice/a-single-request.yaml", f"policy_path={BAD}"]) == 1
    assert "a plan may give tokens to a request once: A has 1 already" in capfd.readouterr().err


def test_one_that_passes_gets_the_same_certificate_as_ever(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    shipped = Path(policies.__file__).parent
    (tmp_path / "policies").mkdir()
    file = shutil.copy(shipped / "fcfs.py", tmp_path / "policies" / "fcfs.py")  # as one's own, it is found first
    assert main(["check", "policy=fcfs"]) == 0
    out, err = capfd.readouterr()
    written = tmp_path / "cache" / "twin" / "certificates" / f"{hashlib.sha256(file.read_bytes()).hexdigest()}.json"
    assert out.splitlines()[-1] == f"fcfs passed; certificate: {written.relative_to(tmp_path)}" and err == ""
    again, committed = (json.loads(path.read_text("utf-8")) for path in (written, shipped / "certificates" / "fcfs.json"))
    assert again | {"versions": None} == committed | {"versions": None}


def test_findings_are_told_and_do_not_fail(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    from twin.check.checks import ABOUT
    from twin.check.conformance import Report
    from twin.check.result import Result

    results = {check: Result(check, cases=1) for check in ABOUT}
    results["steady overload"].find("starvation: the longest wait was 38 s")
    about = {"policy": "p", "class": "P", "file": "p.py", "sha256": "0" * 64, "parameters": {}, "parts": {}}
    about["built_in"] = False
    monkeypatch.setattr("twin.check.conformance.check_policy", lambda *arguments: Report(about, results))
    assert main(["check", "policy=p"]) == 0
    *_, finding, certified = capfd.readouterr().out.splitlines()
    assert finding == "finding: starvation: the longest wait was 38 s"
    certificate = json.loads(Path(certified.removeprefix("p passed; certificate: ")).read_text(encoding="utf-8"))
    assert certificate["findings"] == ["starvation: the longest wait was 38 s"]
    assert certificate["checks"]["adversarial"] == {"verdict": "passed", "scenarios": 1}
    assert "cost" not in certificate["checks"]  # no wall time: the same bytes each time


@pytest.mark.parametrize(
    "words, said",
    [
        (["policy=srpt"], "policy Srpt needs predicted output lengths: choose a predictor, predictor=oracle"),
        (["policy=fcfz"], "policy=fcfz: no such policy; did you mean fcfs?"),
        (["policy=fcfs", "policy.alpha=1"], "policy.alpha: no such parameter of policy=fcfs"),
        (["policy=fcfs", "trace.rate=2"], "trace.rate=2: twin check makes its own systems and takes policy, "),
        (["policy=fcfs", "check.quick=2"], "check.quick=2: must be true or false"),
        (["policy=fcfs", "check.limit_s=0"], "check.limit_s=0: must be seconds, above 0"),
        (["policy=sjf", "predictor=nois"], "predictor=nois: no such "),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str, capfd: pytest.CaptureFixture[str]):
    assert main(["check", *words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


@pytest.mark.parametrize(
    "text, status, said",
    [
        ("class Broken(:\n", 2, "mine.py:1: invalid syntax"),
        ("import time\n\nSTART = time.time()\n", 1, "it reads the clock: time.time() at mine.py:3"),
        ("while True:\n    pass\n", 1, "it does not come back: after 2 s it was at mine.py:"),
    ],
)
def test_a_file_that_cannot_even_be_imported(
    text: str, status: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    assert main(["check", "policy=mine", f"policy_path={tmp_path}", "check.limit_s=2"]) == status
    assert said in capfd.readouterr().err


def test_help_names_its_own_options(capfd: pytest.CaptureFixture[str]):
    assert main(["check", "--help"]) == 0
    out, _ = capfd.readouterr()
    assert "check.quick=false" in out and "example: python -m twin check policy=fcfs" in out
