"""Parts by name: what the command line and scenario files say, what is found and made, and what results say of it."""

import json
from pathlib import Path

import pytest
import yaml

from twin.cli.compose import compose
from twin.cli.main import main
from twin.policy_assembly import Assembly, assemble, parse
from twin.policy_parameters import PolicyFileError

BOTH = '''from typing import Literal

from twin.policy import Policy


class Both(Policy):
    """Two roles."""

    def __init__(self, seats: int = 2, why: Literal["max", "pow2"] = "max", share: float | None = None):
        if seats < 1:
            raise ValueError(f"seats must be at least 1, not {seats}")
        self.seats = seats

    def admit(self, request, view):
        return view.num_running < self.seats

    def victim(self, running, view):
        return running[0]
'''
SMALL = [
    "system=textbook", "latency=linear", "latency.base_s=1", "trace=synthetic", "trace.arrivals=burst()",
    "trace.prompt_tokens=16", "trace.output_tokens=3", "trace.num_requests=6", "output.figures=false", "output.report=false",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "both.py").write_text(BOTH)
    return tmp_path


def assembled(name: str = "fcfs", given: dict | None = None, **parts: str) -> Assembly:
    return assemble(name, given or {}, parts)


# --- the words


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("watermark", "watermark", {}),
        (" watermark() ", "watermark", {}),
        ("watermark(share=0.05)", "watermark", {"share": 0.05}),
        ("x(a=-1, b=1e-3, c=true, d=False, e=null)", "x", {"a": -1, "b": 0.001, "c": True, "d": False, "e": None}),
        ("x(a=max,b='p, q',c=\"r\")", "x", {"a": "max", "b": "p, q", "c": "r"}),
    ],
)
def test_a_part_is_a_name_or_a_name_with_parameters(text, name, parameters):
    found, given = parse("policy.admission", text)
    assert (found, given) == (name, parameters)
    assert {key: type(value) for key, value in given.items()} == {key: type(value) for key, value in parameters.items()}


@pytest.mark.parametrize(
    "text",
    ["", "3", "a b", "x(", "x(1)", "x(a=)", "x(a=[1])", "x(a=f(1))", "x(*a)", "x(**a)", "x.y(a=1)", "x(a=-b)", "x(a=1)(b=2)",
     "lambda: 0", "x(a=1j)", "(" * 5000],
)  # fmt: skip
def test_whatever_else_is_refused_in_one_line(text):
    with pytest.raises(PolicyFileError, match=r"must be a policy's name, or name\(parameter=value, ...\)") as caught:
        parse("policy.admission", text)
    assert str(caught.value).startswith("policy.admission=")


@pytest.mark.parametrize("option", ["admission", "victim", "preemption_mode"])
def test_parts_need_no_quotes_of_hydras(option):
    assert compose([f"policy.{option}=both(seats=3,why=max)"]).values["policy"][option] == "both(seats=3,why=max)"


# --- what is found and made


def test_the_same_policy_with_the_same_parameters_is_one_object_whatever_its_roles():
    one = assembled(admission="both(seats=2)", victim="both")
    assert one.parts["admission"].policy is one.parts["victim"].policy
    assert one.parts["victim"].parameters == {"seats": 2, "why": "max", "share": None}
    two = assembled(admission="both(seats=3)", victim="both")
    assert two.parts["admission"].policy is not two.parts["victim"].policy
    main = assembled("both", {"seats": 3}, admission="both(seats=3)", victim="both(seats=4)")
    assert main.parts["admission"].policy is main.main.policy is not main.parts["victim"].policy
    again = assembled(admission="both(seats=2)")
    assert again.parts["admission"].policy is not one.parts["admission"].policy


def test_a_mode_of_the_cores_own_is_no_part():
    for mode in ("recompute", "swap", "auto", "keep"):
        assert assembled(preemption_mode=mode).parts == {}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"victim": "fcfs"}, r"policy.victim=fcfs: it has no hook victim\(\), so it cannot be this part"),
        ({"admission": "last"}, r"policy.admission=last: it has no hook admit\(\)"),
        ({"preemption_mode": "both"}, r"policy.preemption_mode=both: it has no hook mode\(\)"),
        ({"victim": "bth"}, r"policy.victim=bth: no such policy; did you mean both\? \(policies: "),
        ({"preemption_mode": "swop"}, r"policy.preemption_mode=swop: must be recompute, swap, auto, keep or a policy with "),
        (
            {"admission": "both(seat=3)"},
            r"seat: no such parameter of policy.admission=both; did you mean seats\? \(param.* why",
        ),
        ({"admission": "both(seats=x)"}, r"seats=x: policy.admission=both takes int here"),
        ({"admission": "both(why=min)"}, r"why=min: policy.admission=both takes max\|pow2 here"),
        ({"admission": "both(seats=0)"}, r"policy.admission=both: seats must be at least 1, not 0"),
        ({"admission": "both(seats=1,seats=2)"}, r"policy.admission=both\(seats=1,seats=2\): seats is given twice"),
        ({"victim": "broken"}, r"broken.py:2: "),
    ],
)
def test_a_part_that_cannot_be_is_one_line_that_names_the_option_or_the_file(own_folder, parts, message):
    (own_folder / "policies" / "broken.py").write_text("\nclass Broken(\n")
    with pytest.raises(PolicyFileError, match=message) as caught:
        assembled(**parts)
    assert "\n" not in str(caught.value)


def test_a_broken_file_does_not_hinder_the_parts_that_are_asked_for(own_folder):
    (own_folder / "policies" / "broken.py").write_text("\nclass Broken(\n")
    assert assembled(victim="both").parts["victim"].file.name == "both"


# --- from the command line to the results


def test_a_run_says_of_each_part_who_it_is(own_folder):
    words = ["policy.admission=both(seats=3)", "policy.victim=last", "policy.preemption_mode=swap"]
    assert main(["run", *SMALL, *words, "hydra.run.dir=out"]) == 0
    config = yaml.safe_load(Path("out", "config.yaml").read_text())
    assert config["policy"]["admission"] == "both(seats=3)" and config["policy"]["preemption_mode"] == "swap"
    about = config["provenance"]["policy"]
    assert about["class"] == "Fcfs" and set(about["parts"]) == {"admission", "victim"}
    part = about["parts"]["admission"]
    assert part["class"] == "Both" and part["file"] == str(own_folder / "policies" / "both.py") and len(part["sha256"]) == 64
    assert part["parameters"] == {"seats": 3, "why": "max", "share": None}
    summary = json.loads(Path("out", "summary.json").read_text())
    assert (summary["finished"], summary["duration_s"]) == (6, 6.0)  # two groups of three, three steps each


def test_without_parts_nothing_is_said_of_them():
    assert main(["run", *SMALL, "hydra.run.dir=out"]) == 0
    assert "parts" not in yaml.safe_load(Path("out", "config.yaml").read_text())["provenance"]["policy"]


def test_help_shows_the_parameters_of_a_part(capsys):
    assert main(["run", "policy.admission=both(seats=3)", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "policy.admission=both (Both of " in shown and "  seats=" in shown and "  why=max" in shown


SCENARIO = {
    "cache": {"num_gpu_blocks": 4, "block_size": 4},
    "policy": {"name": "fcfs", "admission": "both(seats=1)"},
    "requests": [{"id": "A", "prompt_tokens": 4, "output_tokens": 1}, {"id": "B", "prompt_tokens": 4, "output_tokens": 1}],
}


def test_a_scenario_has_parts_too(own_folder, capsys):
    Path("one.yaml").write_text(yaml.safe_dump(SCENARIO))
    assert main(["scenario", "one.yaml"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["scheduled"] for line in lines[:-1]] == [{"A": 4}, {"B": 4}]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"victim": "fcfs"}, "policy.victim=fcfs: it has no hook victim()"),
        ({"preemption_mode": "drop"}, "policy.preemption_mode=drop: must be recompute, swap, auto, keep or a policy"),
        ({"victim": "most_remaining"}, "policy.victim=most_remaining needs predicted output lengths"),
    ],
)
def test_a_part_that_a_scenario_cannot_have_is_one_line(policy, message, capsys):
    Path("one.yaml").write_text(yaml.safe_dump(SCENARIO | {"policy": policy}))
    assert main(["scenario", "one.yaml"]) == 2
    error = capsys.readouterr().err
    assert message in error and "one.yaml" in error and error.count("\n") == 1
