"""`engine oracle`: vLLM's decisions for a scenario file, and a clear line where they cannot be had."""

import json
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.oracle import versions
from tests.docs.pages import blocks
from tests.sim.test_vllm_rules import STALE
from tests.vllm.differences import scenario_file

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(content: dict, name: str = "one.yaml") -> None:
    Path(name).write_text(scenario_file(content))


def complaint(capsys: Captured, *words: str) -> str:
    assert main(["oracle", *words]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("engine oracle: ") and told.err.count("\n") == 1
    return told.err


# --- with vLLM


def test_it_prints_the_example_of_the_documentation(version: str, capsys: Captured) -> None:
    """Steps are those of docs/scenarios.md; in the fifth older versions hand out other blocks."""
    Path("short_of_blocks.yaml").write_text(blocks("scenarios", "yaml")[0])
    assert main(["oracle", "short_of_blocks.yaml"]) == 0
    *steps, last = map(json.loads, capsys.readouterr().out.splitlines())
    *ours, summary = map(json.loads, blocks("scenarios", "json")[0].splitlines())
    assert [step["scheduled"] for step in steps] == [step["scheduled"] for step in ours]
    assert last["summary"]["requests"].keys() == summary["summary"]["requests"].keys()
    assert (steps == ours) == versions.DIFFERENCES[version].get("blank_blocks_first", True)
    assert main(["oracle", "short_of_blocks.yaml", "--diff"]) == 0
    assert capsys.readouterr().out == f"short_of_blocks.yaml: vLLM {version} and ours decide the same\n"


def test_a_difference_is_shown_with_both_states(version: str, capsys: Captured) -> None:
    if version == "0.11":
        write(STALE)  # both have one priority and one arrival
        assert "one.yaml: vLLM cannot tell two requests apart" in complaint(capsys, "one.yaml")
        return
    write(STALE)
    assert main(["oracle", "one.yaml", "--diff"]) == 1
    what, ours, theirs, why = capsys.readouterr().out.splitlines()
    assert what == "one.yaml: step 3 differs in scheduled"
    assert '"scheduled": {"first": 13}' in ours and '"scheduled": {"first": 1}' in theirs
    assert "with vllm_defects: true in the file both decide the same" in why
    write(STALE | {"vllm_defects": True})
    assert main(["oracle", "one.yaml", "--diff"]) == 0


def test_many_scenarios_in_a_file(version: str, capsys: Captured) -> None:
    one = {"cache": {"num_gpu_blocks": 4}, "requests": [{"id": "A", "prompt_tokens": 4, "output_tokens": 2}]}
    Path("many.jsonl").write_text("".join(json.dumps({"id": name, "scenario": one}) + "\n" for name in "ab"))
    assert main(["oracle", "many.jsonl"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["id"], second["id"]) == ("a", "b") and first["steps"] == second["steps"]
    assert [step["scheduled"] for step in first["steps"]] == [{"A": 4}, {"A": 1}]
    assert first["summary"]["requests"]["A"]["token_times_s"] == [1.0, 2.0]


# --- anywhere


def here(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    """As if this vLLM were installed, or none."""
    monkeypatch.setattr(versions, "find_spec", lambda name: None if version is None else name)
    monkeypatch.setattr(versions, "_distribution_version", lambda: version)


def test_without_vllm_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    here(monkeypatch, None)
    write(STALE)
    assert "vLLM is not installed here; docs/vllm.md says" in complaint(capsys, "one.yaml")


def test_a_version_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    here(monkeypatch, "0.99.1+cpu")
    write(STALE)
    assert "vLLM 0.99.1+cpu is installed; the oracle knows 0.33, 0.32, 0.21, 0.11" in complaint(capsys, "one.yaml")


REQUEST = {"id": "A", "prompt_tokens": 4, "output_tokens": 3}


@pytest.mark.parametrize(
    ("version", "content", "words"),
    [
        ("0.32", {"policy": {"name": "sjf"}}, "policy sjf: it has fcfs and priority"),
        ("0.32", {"policy": {"name": "fcfs", "preemption_mode": "swap"}}, "policy.preemption_mode"),
        ("0.32", {"cache": {"num_gpu_blocks": 4, "num_cpu_blocks": 4}}, "cache.num_cpu_blocks: it recomputes"),
        ("0.32", {"requests": [REQUEST | {"n": 2}]}, "n > 1"),
        ("0.32", {"requests": [REQUEST | {"pauses": [[1, 1.0]]}]}, "pauses"),
        ("0.21", {"cache": {"num_gpu_blocks": 4, "watermark": 0.1}}, "cache.watermark: it has no such option"),
        ("0.11", {"scheduler": {"enable_chunked_prefill": False}}, "it always chunks"),
    ],
)
def test_what_vllm_cannot_be_told(
    version: str, content: dict, words: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    here(monkeypatch, f"{version}.0")
    write({"cache": {"num_gpu_blocks": 4}, "requests": [REQUEST]} | content)
    told = complaint(capsys, "one.yaml")
    assert f"one.yaml: vLLM {version} cannot play " in told and words in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--differ", "one.yaml"], "--differ: no such option; there is --diff"),
        ([], "give one file"),
        (["one.txt"], "one.txt: not a scenario file"),
        (["missing.yaml"], "missing.yaml: no such file"),
    ],
)
def test_a_mistake(words: list[str], told: str, capsys: Captured) -> None:
    assert told in complaint(capsys, *words)


def test_help(capsys: Captured) -> None:
    assert main(["oracle", "--help"]) == 0
    assert "--diff" in capsys.readouterr().out
