"""docs/policies.md: its two policies run by its two commands, and its tables name what `twin.policy` has."""

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from twin import policy as policies
from twin.cli.main import main
from twin.results.load import load_run

QUICK = ("output.figures=false", "output.report=false", "hydra.run.dir=out")
NAMES = re.findall(r"`policies/(\w+)\.py`", page("policies"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policies").mkdir()
    for name, code in zip(NAMES, blocks("policies", "python"), strict=True):
        Path("policies", f"{name}.py").write_text(code)


@pytest.mark.parametrize("name", NAMES)
def test_the_policies_of_the_page_run(name: str):
    line = next(line for line in blocks("policies", "bash") if f"policy={name} " in line)
    words = shlex.split(line)
    assert words[:3] == ["python", "-m", "twin"]
    assert main([*words[3:], *QUICK]) == 0
    done = load_run("out")
    assert done.summary["finished"] == done.summary["requests"] > 0
    assert Path(done.config["provenance"]["policy"]["file"]) == Path("policies", f"{name}.py").resolve()


def test_the_order_of_the_first_is_the_order_of_service():
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
