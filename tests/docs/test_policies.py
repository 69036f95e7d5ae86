"""docs/policies.md: its policies run, its commands work, its tables name what `twin.policy` has."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.docs.pages import DOCS, blocks, page
from tests.policies.scenarios import played, request
from tests.sim.cases import Case, cases, difference
from tests.sim.test_shipped_policies import adapted
from twin import policy as policies
from twin.cli.main import main
from twin.cli.policy_catalogue import entries
from twin.cli.policy_markdown import catalogue
from twin.results.load import load_run
from twin.sim.simulation import Simulation

QUICK = ("output.figures=false", "output.report=false", "hydra.run.dir=out")
NAMES = re.findall(r"^`policies/(\w+)\.py`[:.]", page("policies"), re.MULTILINE)
COMMANDS = [line for block in blocks("policies", "bash") for line in block.splitlines()]


def drop_in(folder: Path) -> None:
    (folder / "policies").mkdir()
    for name, code in zip(NAMES, blocks("policies", "python"), strict=True):
        (folder / "policies" / f"{name}.py").write_text(code + "\n")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drop_in(tmp_path)


def test_there_are_five_of_growing_depth():
    decided = [next(entry for entry in entries() if entry.name == name).decides for name in NAMES]
    assert decided == [("order",), ("order",), ("order",), ("preemptive order", "victim"), ("whole step",)]


@pytest.mark.parametrize("name", NAMES)
def test_the_policies_of_the_page_run(name: str):
    words = shlex.split(next(line for line in COMMANDS if f" run policy={name} " in line))
    assert words[:3] == ["python", "-m", "twin"]
    assert main([*words[3:], "trace.num_requests=200", *QUICK]) == 0
    done = load_run("out")
    assert done.summary["finished"] == done.summary["requests"] == 200
    assert Path(done.config["provenance"]["policy"]["file"]) == Path("policies", f"{name}.py").resolve()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_they_hold_under_random_pressure_and_are_as_steady_as_they_say(name: str, case: Case):
    case = adapted(case, name)
    outcome = Simulation(case.setup(), case.trace).run()
    assert outcome.complete and "unfinished" not in outcome.requests["status"]
    assert difference(outcome, Simulation(case.setup(), case.trace, step_by_step=True).run()) is None


@pytest.mark.parametrize("line", [line for line in COMMANDS if not any(f" run policy={name} " in line for name in NAMES)])
def test_all_other_commands_work(line: str, capsys: pytest.CaptureFixture[str]):
    Path("one_seat.yaml").write_text(blocks("policies", "yaml")[0])
    assert main(["policy", "new", "my_policy"]) == 0
    words = shlex.split(line)[3:]
    if words == ["policy", "new", "my_policy"]:
        return
    if words[0] == "run":
        words += [*QUICK[:2], "seeds=1", "trace.num_requests=100"]
    if words[0] == "check":  # all of it would take half a minute each
        words.append("check.quick=true" if "policy=my_policy" in words else "--help")
    assert main(words) == 0
    assert "error" not in capsys.readouterr().err


def test_the_scenario_does_what_the_page_says(capsys: pytest.CaptureFixture[str]):
    Path("one_seat.yaml").write_text(blocks("policies", "yaml")[0])
    assert main(["scenario", "one_seat.yaml"]) == 0
    *steps, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = re.search(r"^`\"admitted\"` is (.*)\.$", page("policies"), re.MULTILINE)
    assert told is not None
    assert told[1] == '`["first"]` in step 1, nobody in step 2, `["short"]` in step 3 and `["long"]` in step 4'
    assert [step["admitted"] for step in steps] == [["first"], [], ["short"], ["long"]]
    assert last["summary"]["policy"]["class"] == "ShortestPrompt"  # who did it is in this result too


def test_the_order_of_the_second_is_the_order_of_service():
    """One seat, all there while the first is served: by predicted output in grains of 10, then by arrival."""
    words = (
        "policy=shortest policy.grain=10 predictor=oracle system=textbook scheduler.max_num_seqs=1 latency=linear "
        "latency.base_s=1 trace=synthetic trace.arrivals=constant(1000) trace.prompt_tokens=1 "
        "trace.output_tokens=uniform(1,60) trace.num_requests=40"
    )
    assert main(["run", *words.split(), *QUICK]) == 0
    table = load_run("out").requests
    first, *served = table["first_scheduled_s"].argsort().tolist()
    assert first == 0
    assert served == sorted(range(1, 40), key=lambda row: (table["output_tokens"][row] // 10, row))


def test_the_third_serves_the_user_who_had_less():
    """One seat: A has had 8 + 2·1 after its first, B 3 + 2·1 and 10 after its two; of equals A, who came before."""
    order = admissions("least_served", 1, [("A1", 8, 1, "A"), ("A2", 8, 1, "A"), ("B1", 3, 1, "B"), ("B2", 3, 1, "B")])
    assert order == ["A1", "B1", "B2", "A2"]


def test_the_fourth_preempts_who_has_put_out_its_limit():
    """One seat: `long` is displaced by `short` after two tokens, and comes back when that has ended."""
    order = admissions({"name": "two_levels", "limit": 2}, 1, [("long", 4, 6, "A"), ("short", 4, 2, "A")])
    assert order == ["long", "short", "long"]


def test_the_fifth_bounds_the_prompt_tokens_of_a_step():
    """Prompts of 8 in steps of at most 5 prompt tokens: 5, 3 and 2 of the next beside one decode, 5 beside two, ..."""
    policy = {"name": "prompt_budget", "tokens": 5}
    steps, _ = played(policy, [request("A", 8, 3), request("B", 8, 1)], blocks=64)
    assert [step["scheduled"] for step in steps] == [{"A": 5}, {"A": 3, "B": 2}, {"A": 1, "B": 5}, {"A": 1, "B": 1}]


def admissions(policy: str | dict[str, object], seats: int, rows: list[tuple[str, int, int, str]]) -> list[str]:
    """Who is admitted, in this order; all (name, prompt, output, user) are there from the beginning."""
    requests = [request(name, prompt, output, user=user) for name, prompt, output, user in rows]
    steps, _ = played(policy, requests, blocks=64, max_num_seqs=seats)
    return [name for step in steps for name in step["admitted"]]


def test_a_constructor_that_refuses_is_a_users_mistake(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "policy=shortest", "policy.grain=0", "predictor=oracle"]) == 2
    assert "grain must be at least 1 token, not 0" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["policies"]


def test_every_hook_declaration_and_view_is_on_the_page():
    text = page("policies")
    shown = [policies.Policy, policies.RequestView, policies.SystemView]
    names = {name for owner in shown for name in vars(owner) if not name.startswith("_")}
    missing = {name for name in names if not re.search(rf"`{name}[`(]", text)}
    assert not missing


def test_every_hook_is_in_the_picture():
    picture = (DOCS / "images" / "step.svg").read_text()
    hooks = {name for name, value in vars(policies.Policy).items() if value is None and not name.startswith("_")}
    hooks -= {"group", "key_steps", "steady_steps", "steady_until"}  # declarations
    hooks -= {"reserve"}  # of the contiguous allocator
    assert {name for name in hooks if not re.search(rf">(?:[\w, ]*\b)?{name}\b", picture)} == set()


def test_the_catalogue_is_fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Else: python -m twin policy list format=markdown > docs/shipped_policies.md"""
    for file in (tmp_path / "policies").iterdir():
        file.unlink()
    assert page("shipped_policies") == catalogue(entries())


def test_the_readme_names_all_that_ship(tmp_path: Path):
    for file in (tmp_path / "policies").iterdir():
        file.unlink()
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [entry.name for entry in entries() if f"`{entry.name}`" not in readme] == []
