"""`twin.run`: the numbers of the command, its mistakes as exceptions, policies of the notebook's own."""

import json
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas
import pytest

import twin
from twin.cli.compose import compose
from twin.cli.main import main
from twin.core.errors import PolicyError
from twin.notebook.options import text
from twin.sim import Simulation

HOLDS_ITSELF: list = []
HOLDS_ITSELF.append(HOLDS_ITSELF)
CLOCKS = ("wall_s", "simulated_requests_per_wall_s")
SMALL = {"trace": "chat", "rate": 6, "num_requests": 120, "max_num_seqs": 16}


def without_clocks(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key not in CLOCKS}


class LongFirst(twin.Policy):
    """Longest prompt first."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight, self.asked = weight, 0

    def order(self, request, view):
        self.asked += 1
        return -self.weight * request.prompt_tokens


def test_the_numbers_are_those_of_the_command(tmp_path: Path):
    run = twin.run(policy="vtc", trace="chat", rate=6, num_requests=150, users="zipf(1.1,n=5)", seed=7,
                   scheduler__max_num_seqs=16, cache={"num_gpu_blocks": 1500}, slo__ttft_s=1)  # fmt: skip
    words = ["run", "policy=vtc", "trace=chat", "trace.rate=6", "trace.num_requests=150", "trace.users=zipf(1.1,n=5)",
             "seed=7", "scheduler.max_num_seqs=16", "cache.num_gpu_blocks=1500", "slo.ttft_s=1"]  # fmt: skip
    assert main([*words, "output.figures=false", "output.report=false", f"hydra.run.dir={tmp_path}"]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert without_clocks(run.summary) == without_clocks(summary) and run.summary["slo_attainment"] is not None
    for name in ("requests", "steps"):
        pandas.testing.assert_frame_equal(getattr(run, name), pandas.read_parquet(tmp_path / f"{name}.parquet"),
                                          check_dtype=False)  # fmt: skip
    assert set(words[1:]) == set(shlex.split(run.command)[4:])


def test_the_first_example_needs_no_predictor_and_says_that_it_has_one():
    run = twin.run(policy="srpt", trace="chat", rate=4, num_requests=60)
    asked = twin.run(policy="srpt", predictor="oracle", trace="chat", rate=4, num_requests=60)
    assert run.requests.equals(asked.requests) and run.summary["finished"] == 60
    assert any("predictor=oracle" in note for note in run.notes)
    assert not any("no predictor was given" in note for note in asked.notes)


def test_a_saved_run_is_the_folder_of_the_command(tmp_path: Path):
    words = ["run", "policy=fcfs", "trace.num_requests=40", "trace.rate=6", "output.decisions=true", "output.report=false"]
    assert main([*words, f"hydra.run.dir={tmp_path / 'command'}"]) == 0
    run = twin.run(policy="fcfs", num_requests=40, rate=6, output__decisions=True)
    assert run.decisions is not None and run.decisions[0]["step"] == 1
    run.save(tmp_path / "notebook", report=False)
    for folder in ("command", "notebook"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == [
            "config.yaml", "decisions.jsonl.gz", "figures", "requests.parquet", "steps.parquet", "summary.json"]  # fmt: skip
    for name in ("requests.parquet", "steps.parquet", "decisions.jsonl.gz", "figures/load.png"):
        assert (tmp_path / "command" / name).read_bytes() == (tmp_path / "notebook" / name).read_bytes()
    loaded = twin.load(tmp_path / "command")
    assert without_clocks(loaded.summary) == without_clocks(run.summary)
    pandas.testing.assert_frame_equal(loaded.requests, run.requests)
    with pytest.raises(twin.UserError, match="was read from a folder"):
        loaded.save(tmp_path / "third")


def test_the_page_of_the_pool_is_that_of_the_command(tmp_path: Path):
    words = ["run", "trace.num_requests=5", "cache.num_gpu_blocks=600", "output.pool_view=true", "output.report=false"]
    assert main([*words, "output.figures=false", f"hydra.run.dir={tmp_path / 'command'}"]) == 0
    run = twin.run(num_requests=5, num_gpu_blocks=600, output__pool_view=True, output__report=False, output__figures=False,
                   folder=tmp_path / "notebook")  # fmt: skip
    assert run.decisions is None
    pages = [(tmp_path / folder / "pool.html").read_bytes() for folder in ("command", "notebook")]
    assert pages[0] == pages[1]
    assert sorted(path.name for path in (tmp_path / "notebook").iterdir()) == [
        "config.yaml", "pool.html", "requests.parquet", "steps.parquet", "summary.json"]  # fmt: skip


def test_a_warm_up_that_leaves_nothing_is_noted():
    run = twin.run(num_requests=5, warmup_requests=10)
    assert run.summary["requests"] == 0 and any("all 5 requests are in the warm-up" in note for note in run.notes)


def test_a_folder_is_written_only_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    twin.run(num_requests=5)
    assert list(tmp_path.iterdir()) == []
    twin.run(num_requests=5, folder="a", output__report=False, output__figures=False)
    twin.run(num_requests=5, hydra__run__dir="b", output__report=False, output__figures=False)
    twin.run(num_requests=5, folder="c", seeds=2, output__report=False, output__figures=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    assert (tmp_path / "b" / "summary.json").exists() and (tmp_path / "c" / "seed=1" / "summary.json").exists()


def test_seeds_give_means_and_all_tables(tmp_path: Path):
    several = twin.run(**SMALL, seeds=3, seed=5)
    assert isinstance(several, twin.Runs) and several.seeds == [5, 6, 7]
    single = twin.run(**SMALL, seed=6)
    assert several.runs[1].requests.equals(single.requests)
    assert list(several.requests.seed.unique()) == [5, 6, 7] and len(several.requests) == 360
    words = ["run", "trace=chat", "trace.rate=6", "trace.num_requests=120", "scheduler.max_num_seqs=16", "seeds=3", "seed=5"]
    assert main([*words, "output.figures=false", "output.report=false", f"hydra.run.dir={tmp_path}"]) == 0
    of_command = json.loads((tmp_path / "summary.json").read_text())
    clocks = tuple(f"{name}{end}" for name in CLOCKS for end in ("", "_ci95"))
    assert {k: v for k, v in several.summary.items() if k not in clocks} == {
        k: v for k, v in of_command.items() if k not in clocks
    }
    assert "mean of 3 seeds" in repr(several) and "±" in several._repr_html_()


def test_it_shows_itself():
    run = twin.run(**SMALL)
    assert "time to first token" in repr(run) and "120 (120 finished)" in repr(run.summary)
    shown = run._repr_html_()
    assert shown.count("<table>") == 2 and "time per output token" in shown and "python -m twin run" in shown
    for figure in (run.plot.latency(), run.plot.load(), run.plot.timeline(first=100, count=50)):
        assert figure._repr_png_().startswith(b"\x89PNG")
    bars = run.plot.timeline(first=100, count=50).axes[0].containers
    assert [len(each) for each in bars] == [20, 20, 20]  # the last twenty, in three phases
    late = run.requests.sort_values("arrival_s", kind="stable").iloc[100]
    assert bars[0][0].get_width() == pytest.approx(late.queue_s) and bars[0][0].get_x() == late.arrival_s
    with pytest.raises(ValueError, match="there are 120 requests"):
        run.plot.timeline(first=120)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"rtae": 4}, "rtae: no such option; did you mean rate?"),
        ({"name": "x"}, "write one of trace__name, policy__name"),
        ({"rate": 2, "trace__rate": 3}, "rate: given twice, as trace.rate too"),
        ({"policy": "fcsf"}, "policy=fcsf: no such policy; did you mean fcfs?"),
        ({"policy": 3}, "policy=3: must be a name, a class derived from twin.Policy"),
        ({"policy": twin.Policy}, "must be a name, a class derived from twin.Policy"),
        ({"rate": -1}, "trace.rate is -1"),
        ({"trace": "chta"}, "trace=chta: no such choice; did you mean chat?"),
        ({"scheduler__max_seqs": 3}, "scheduler.max_seqs: no such option; did you mean scheduler.max_num_seqs?"),
        ({"max_num_seqs": True}, "scheduler.max_num_seqs=true: must be an integer"),
        ({"seed": object}, "seed=<class 'object'>: must be a number, text"),
        ({"policy": LongFirst, "wieght": 2}, "wieght: no such option; did you mean weight?"),
        ({"policy": LongFirst, "weight": "x"}, "policy.weight=x: policy=LongFirst takes float here"),
        ({"policy": LongFirst(), "policy__weight": 2}, "policy.weight: this policy is made already"),
        ({"policy": "srpt", "predictor": "none"}, "needs predicted output lengths"),
        ({"policy": None, "rate": 2}, "policy.name=null: must be a name"),
        ({"rate": np.array([1.0, 2.0])}, "trace.rate is [1.0, 2.0], must be a number"),
        ({"seed": 10**5000}, "seed: a number of thousands of digits"),
        ({"trace": "chat\nchat"}, "trace=chat chat: no such choice"),
        ({"rate": HOLDS_ITSELF}, "a dict or list among them holds itself"),
        ({"folder": 3}, "folder=3: must be the path of a folder"),
        ({"folder": ""}, "folder='': must be the path of a folder"),
        ({"folder": "a\0b"}, "no file can be called so (embedded null byte)"),
    ],
)
def test_a_mistake_is_the_line_of_the_command(keywords, says):
    with pytest.raises(twin.UserError) as caught:
        twin.run(**keywords)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_options_in_every_way_of_writing_are_the_same():
    ways = [
        twin.run({"scheduler.max_num_seqs": 16, "trace.rate": 6}, trace="chat", num_requests=120),
        twin.run({"scheduler": {"max_num_seqs": 16}}, trace={"name": "chat", "rate": 6, "num_requests": 120}),
        twin.run(trace="chat", trace__rate=6, trace__num_requests=120, scheduler__max_num_seqs=16),
    ]
    for run in ways:
        assert run.requests.equals(twin.run(**SMALL).requests)


def test_values_are_pythons(tmp_path: Path):
    run = twin.run(trace="mix", parts=[{"name": "chat", "weight": 3}, {"name": "code", "weight": 1}], rate=np.float64(5),
                   num_requests=np.int64(40), trace__clip=None, enable_prefix_caching=False)  # fmt: skip
    assert run.config["trace"]["parts"][1] == {"name": "code", "weight": 1} and run.config["trace"]["rate"] == 5.0
    assert run.config["cache"]["enable_prefix_caching"] is False and len(run.requests) == 40
    table = tmp_path / "it's a [table], ${of} mine.csv"
    table.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,2\n1,20,3\n")
    assert list(twin.run(trace="file", trace__path=table).requests.prompt_tokens) == [10, 20]


@pytest.mark.parametrize(
    "path", ["a b", "it's", "a\\", "a\\'b\\\\", "${x}", "[1,2]", "12", "true", "null", "a,b", "x=1", "é(1)", "#%"]
)
def test_text_arrives_as_it_is(path: str):
    words = ["trace=file", f"trace.path={text('trace.path', path)}"]
    assert compose(words).values["trace"]["path"] == path


def test_a_class_an_object_and_the_file_of_it_schedule_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "long_first.py").write_text(
        '"""Long."""\n\nfrom twin.policy import Policy\n\n\nclass LongFirst(Policy):\n    """Longest first."""\n\n'
        "    def __init__(self, weight: float = 1.0):\n        self.weight = weight\n\n"
        "    def order(self, request, view):\n        return -self.weight * request.prompt_tokens\n"
    )
    monkeypatch.chdir(tmp_path)
    busy = SMALL | {"max_num_seqs": 2}
    named = twin.run(policy="long_first", weight=2, **busy)
    ready = LongFirst(2.0)
    for run in (twin.run(policy=LongFirst, weight=2, **busy), twin.run(policy=ready, **busy)):
        assert run.requests.equals(named.requests)
        about = run.config["provenance"]["policy"]
        assert about["class"] == "LongFirst" and about["file"] == __file__ and len(about["sha256"]) == 64
        assert any("no certificate" in note for note in run.notes)
    assert not named.requests.equals(twin.run(policy="fcfs", **busy).requests)  # the order matters here
    assert ready.asked == 0  # each run had a copy
    with_part = twin.run(policy=LongFirst, policy__victim="longest", cache__num_gpu_blocks=700, **SMALL)
    assert with_part.config["provenance"]["policy"]["parts"]["victim"]["class"] == "Longest"


def test_a_class_that_was_typed_in_is_named_as_such():
    space: dict = {"twin": twin}
    exec("class Typed(twin.Policy):\n    def order(self, request, view):\n        return request.arrival_s\n", space)
    run = twin.run(policy=space["Typed"], num_requests=20)
    assert run.config["provenance"]["policy"]["file"] == "<notebook>" and run.summary["finished"] == 20


def test_a_policy_that_raises_leaves_what_was_done():
    class Breaks(twin.Policy):
        """Raises late."""

        def order(self, request, view):
            if request.arrival_s > 5:
                raise RuntimeError("enough")
            return request.arrival_s

    with pytest.raises(PolicyError, match="raised RuntimeError: enough") as caught:
        twin.run(policy=Breaks, rate=6, num_requests=120)
    assert "\n" not in str(caught.value) and isinstance(caught.value, twin.PolicyError)
    assert 0 < caught.value.run.summary["finished"] < 120 and caught.value.run.summary["complete"] is False


def test_what_is_interrupted_is_returned(monkeypatch: pytest.MonkeyPatch):
    simulate = Simulation.run

    def stopped(self: Simulation, *_):
        def now(finished: int, virtual_s: float) -> None:
            if finished >= 20:
                raise KeyboardInterrupt

        return simulate(self, now)

    monkeypatch.setattr(Simulation, "run", stopped)
    with pytest.warns(UserWarning, match="interrupted"):
        run = twin.run(**SMALL)
    assert run.summary["complete"] is False and 20 <= run.summary["finished"] < 120


def test_it_warns_of_nothing_else():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twin.run(num_requests=10)


def test_import_twin_is_light():
    heavy = ("numpy", "pandas", "pyarrow", "matplotlib", "hydra", "omegaconf", "rich", "simpy", "torch", "twin.cli")
    program = f"import sys, twin; twin.UserError; dir(twin); print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() in ("[]", "['twin.cli']")
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        twin.rnu  # noqa: B018
    assert {"run", "load", "Policy", "UserError", "PolicyError"} <= set(dir(twin))


def test_a_folder_that_is_none_is_a_mistake(tmp_path: Path):
    with pytest.raises(twin.UserError, match="there is no such folder"):
        twin.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        (None, "folder=None: must be the path"),
        ("", "folder='': must be the path"),
        ("a\0b", "no file can be called so"),
        ("a" * 5000, "file name too long"),
    ],
)
def test_what_is_no_folder_at_all_is_a_mistake_too(folder, says):
    with pytest.raises(twin.UserError, match=says) as caught:
        twin.load(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_simulated(tmp_path: Path):
    (tmp_path / "file").write_text("")

    class Raises(twin.Policy):
        """Never asked."""

        def order(self, request, view):
            raise RuntimeError("simulated")

    with pytest.raises(twin.UserError, match="cannot be written to \\(not a directory\\)"):
        twin.run(policy=Raises, num_requests=5, folder=tmp_path / "file")
    with pytest.raises(PolicyError, match="simulated"):
        twin.run(policy=Raises, num_requests=5, folder=tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
