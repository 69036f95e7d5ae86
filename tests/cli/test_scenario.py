"""`twin scenario`: JSON lines as CONTRACT section 4 prints them."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from twin.cli.main import main

SCENARIO = """cache: {num_gpu_blocks: 8, block_size: 16}
scheduler: {max_num_batched_tokens: 64}
policy: {name: fcfs}
requests:
  - {id: A, arrival_s: 0, prompt_tokens: 16, output_tokens: 2}
"""
FIRST = (
    '{"step": 1, "start_s": 0.0, "end_s": 1.0, "scheduled": {"A": 16}, "admitted": ["A"], "preempted": {}, '
    '"swapped_in": [], "outputs": {"A": 1}, "finished": [], "cached_tokens": {"A": 0}, "block_tables": {"A": [0]}, '
    '"ref_counts": {"0": 1}, "free_blocks": 7, "copies": []}'
)
DICT = {
    "cache": {"num_gpu_blocks": 8, "block_size": 16},
    "requests": [{"id": "A", "arrival_s": 0, "prompt_tokens": 16, "output_tokens": 2}],
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_line_a_step_and_the_summary_last(capsys):
    Path("one.yaml").write_text(SCENARIO)
    assert main(["scenario", "one.yaml"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == FIRST  # to the letter, as the contract shows it
    assert json.loads(second)["finished"] == ["A"]
    assert json.loads(last)["summary"]["requests"]["A"]["token_times_s"] == [1.0, 2.0]


@pytest.mark.parametrize("name", ["many.jsonl", "many.jsonl.gz"])
def test_a_file_of_many_prints_one_line_for_each(capsys, name):
    text = "".join(json.dumps({"id": identity, "scenario": DICT}) + "\n" for identity in ("x", "y"))
    Path(name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert main(["scenario", name]) == 0
    played = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["id"] for line in played] == ["x", "y"]
    assert played[0]["steps"][0] == json.loads(FIRST) and played[0]["summary"]["steps"] == 2


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("max_num_batched_tokens", "max_num_batched_token"), ["max_num_batched_token", "max_num_batched_tokens"]),
        (("name: fcfs", "name: fcsf"), ["policy=fcsf", "did you mean fcfs"]),
        (("name: fcfs", "name: fcfs, alpha: 1"), ["policy.alpha", "policy=fcfs"]),
        (("output_tokens: 2", "output_tokens: 0"), ["request A", "output_tokens"]),
        (("num_gpu_blocks: 8", "num_gpu_blocks: 0"), ["at least 1"]),
        (("{id: A", "{{id: A"), ["bad.yaml:6: not YAML"]),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_file_and_place(capsys, change, names):
    Path("bad.yaml").write_text(SCENARIO.replace(*change))
    assert main(["scenario", "bad.yaml"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    for name in ["bad.yaml", *names]:
        assert name in output.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one file"),
        (["a.yaml", "b.yaml"], "one file"),
        (["nowhere.yaml"], "nowhere.yaml: no such file"),
        (["notes.txt"], "must end in one of"),
        (["seed=3"], "no such option"),
    ],
)
def test_a_wrong_call_is_one_line(capsys, words, said):
    assert main(["scenario", *words]) == 2
    line = capsys.readouterr().err
    assert said in line and len(line.splitlines()) == 1


def test_a_mistake_in_a_later_scenario_is_told_before_anything_is_printed(capsys):
    bad = {**DICT, "sceduler": {}}
    Path("many.jsonl").write_text(json.dumps({"id": "x", "scenario": DICT}) + "\n" + json.dumps({"scenario": bad}))
    assert main(["scenario", "many.jsonl"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "many.jsonl:2" in output.err and "sceduler" in output.err


def test_a_policy_that_fails_is_told_after_the_steps_that_led_to_it(capsys, own_folder):
    Path("mine").mkdir()
    Path("mine/picky.py").write_text(
        'from twin.policy import Policy\n\n\nclass Picky(Policy):\n    """Never content."""\n\n'
        "    def admit(self, request, view):\n        return 1 / (view.now < 5)\n"
    )
    late = "  - {id: B, arrival_s: 7, prompt_tokens: 16, output_tokens: 2}\n"
    Path("one.yaml").write_text(SCENARIO.replace("fcfs", "picky") + late)
    assert main(["scenario", "one.yaml", "policy_path=mine"]) == 1
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 2 and "policy Picky" in output.err and "picky.py:8" in output.err


def test_a_reader_that_has_enough_is_no_error():
    Path("one.yaml").write_text(SCENARIO.replace("output_tokens: 2", "output_tokens: 100").replace("s: 8", "s: 99"))
    code = "import sys; from twin.cli.main import main; sys.exit(main(['scenario', 'one.yaml']))"
    root = Path(__file__).resolve().parents[2]
    script = f'cd {Path.cwd()} && PYTHONPATH={root} {sys.executable} -c "{code}" | head -n 1; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""
