"""`twin run -m` in one process: the grid, its table, what is run again, and what goes wrong."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from tests.cli.commands import SMALL, complaint
from tests.results.parsed import Parsed
from tests.sweep.sweeping import IN_PROCESS, RANDOM, stamps, statuses, summary, sweep, write_policies
from twin.cli.main import main
from twin.cli.seeds import combined
from twin.sweep.lock import LOCK, TakenError, alone


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_policies(tmp_path)


def refused(capsys: pytest.CaptureFixture, *words: str) -> str:
    """The one line of a sweep that must be refused with nothing written."""
    return complaint(capsys, "-m", *SMALL, *words, "hydra.sweep.dir=out")


def test_a_grid_by_hand():
    # 20 requests alone in steps of 1 s, one every 1/rate s: the last arrives at 19/rate and takes three steps.
    status, rows = sweep("policy=fcfs,prefill_first", "trace.rate=0.1,0.2", IN_PROCESS)
    assert status == 0 and [(row["policy"], row["trace.rate"]) for row in rows] == [
        ("fcfs", 0.1), ("fcfs", 0.2), ("prefill_first", 0.1), ("prefill_first", 0.2),
    ]  # fmt: skip
    assert [row["duration_s"] for row in rows] == pytest.approx([193, 98, 193, 98])
    assert {row["status"] for row in rows} == {"finished"} and {row["reason"] for row in rows} == {None}


def test_the_table_has_every_figure_of_the_summaries():
    _, rows = sweep("policy=fcfs,prefill_first", IN_PROCESS)
    for row in rows:
        there = summary("out", row["job"])
        assert {key: row[key] for key in there} == there
    types = {field.name: str(field.type) for field in pyarrow.parquet.read_schema("out/sweep.parquet")}
    assert (types["policy"], types["requests"], types["ttft_s_mean"], types["complete"]) == (
        "string", "int64", "double", "bool",
    )  # fmt: skip


def test_a_job_is_what_the_same_words_alone_would_leave():
    sweep("policy=fcfs,prefill_first", *RANDOM, IN_PROCESS)
    assert main(["run", *SMALL, *RANDOM, "policy=fcfs", "hydra.run.dir=alone"]) == 0
    names = {path.name for path in Path("alone").iterdir()}
    assert {path.name for path in Path("out/policy=fcfs").iterdir()} == names | {"job.json"}
    for name in ("requests.parquet", "steps.parquet"):
        assert Path("out/policy=fcfs", name).read_bytes() == Path("alone", name).read_bytes()


def test_jobs_of_one_seed_see_the_same_requests():
    sweep("policy=fcfs,prefill_first", "seed=0,1", *RANDOM, IN_PROCESS)
    columns = ["request_id", "arrival_s", "prompt_tokens", "output_tokens"]

    def trace(policy: str, seed: int) -> pyarrow.Table:
        path = Path("out", f"policy={policy},seed={seed}", "requests.parquet")
        return pyarrow.parquet.read_table(path, columns=columns)

    for seed in (0, 1):
        assert trace("fcfs", seed).equals(trace("prefill_first", seed))
    assert not trace("fcfs", 0).equals(trace("fcfs", 1))


def test_distributions_need_no_quotes_in_lists():
    status, rows = sweep("trace.output_tokens=choice(2:0.5,4:0.5),uniform(1,3)", IN_PROCESS)
    assert status == 0 and [row["trace.output_tokens"] for row in rows] == ["choice(2:0.5,4:0.5)", "uniform(1,3)"]


def test_seeds_give_each_job_an_interval():
    status, rows = sweep("policy=fcfs,prefill_first", "seeds=3", *RANDOM, IN_PROCESS)
    assert status == 0 and [row["seeds"] for row in rows] == [3, 3]
    means = [summary("out", "policy=fcfs", f"seed={seed}")["e2e_s_mean"] for seed in range(3)]
    assert rows[0]["e2e_s_mean"] == pytest.approx(np.mean(means))
    half = 4.302653 * np.std(means, ddof=1) / np.sqrt(3)  # Student's t, two degrees of freedom
    assert rows[0]["e2e_s_mean_ci95"] == pytest.approx(half, rel=1e-6)
    assert summary("out", "policy=fcfs")["e2e_s_mean"] == rows[0]["e2e_s_mean"]


def test_a_second_start_runs_what_is_missing(capsys):
    sweep("policy=fcfs,prefill_first", "trace.rate=1,2", IN_PROCESS)
    before = stamps()
    (Path("out") / "policy=fcfs,trace.rate=2" / "summary.json").unlink()  # a folder that is cut off
    capsys.readouterr()
    status, rows = sweep("policy=fcfs,prefill_first", "trace.rate=1,2,3", IN_PROCESS)
    assert status == 0 and len(rows) == 6
    after = stamps()
    again = {name for name in after if after[name] != before.get(name)}
    assert again == {"policy=fcfs,trace.rate=2", "policy=fcfs,trace.rate=3", "policy=prefill_first,trace.rate=3"}
    assert "6 jobs, 3 of them done before" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["an option", "a policy's file", "a trace's file"])
def test_what_is_another_configuration_by_now_is_run_again(change):
    Path("policies/mine.py").write_text(
        'from twin.policy import Policy\n\n\nclass Mine(Policy):\n    """First come."""\n\n'
        "    def order(self, request, view):\n        return request.arrival_s\n"
    )
    Path("trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,16,2\n1,16,2\n")
    words = ["policy=mine,fcfs", "trace=file", "trace.path=trace.csv", IN_PROCESS]
    base = [word for word in SMALL if not word.startswith("trace")]
    start = ["run", "-m", *base, *words, "hydra.sweep.dir=out"]
    assert main(start) == 0
    before = stamps()
    if change == "an option":
        start.append("latency.base_s=2")
    elif change == "a policy's file":
        Path("policies/mine.py").write_text(Path("policies/mine.py").read_text() + "\n# another\n")
    else:
        Path("trace.csv").write_text(Path("trace.csv").read_text() + "2,16,2\n")
    assert main(start) == 0
    after = stamps()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == ({"policy=mine"} if change == "a policy's file" else {"policy=mine", "policy=fcfs"})


def test_a_job_that_fails_takes_no_other_with_it(capsys):
    status, rows = sweep("policy=failing,fcfs", IN_PROCESS)
    assert status == 1 and statuses(rows) == {"failing": "failed", "fcfs": "finished"}
    assert "boom" in rows[0]["reason"] and rows[0]["ttft_s_mean"] is None and rows[1]["ttft_s_mean"] == 1.0
    said = capsys.readouterr().err
    assert "1 of 2 jobs failed" in said and "policy=failing" in said and "boom" in said and said.count("\n") == 1


def test_a_failed_job_is_tried_again():
    sweep("policy=failing,fcfs", IN_PROCESS)
    Path("policies/failing.py").write_text(Path("policies/failing.py").read_text().replace("now > 50", "now < 0"))
    status, rows = sweep("policy=failing,fcfs", IN_PROCESS)
    assert status == 0 and statuses(rows) == {"failing": "finished", "fcfs": "finished"}


def test_combinations_that_cannot_be_fail_alone():
    # opt-13b has 40 attention heads, llama3.1-8b 32: both can be had on 8 GPUs, only the first on 5.
    status, rows = sweep("model=opt-13b,llama3.1-8b", "parallel.tensor_parallel_size=8,5", IN_PROCESS)
    assert status == 1 and [row["status"] for row in rows] == ["finished", "finished", "finished", "failed"]
    assert "attention heads" in rows[3]["reason"]


def test_ctrl_c_leaves_finished_jobs_and_a_second_start_ends_the_rest(capsys):
    status, rows = sweep("policy=fcfs,stopped,prefill_first", IN_PROCESS)
    assert status == 130 and statuses(rows) == {"fcfs": "finished"}
    assert "1 of 3 jobs have ended" in capsys.readouterr().err
    before = stamps()["policy=fcfs"]
    Path("go_on").touch()
    status, rows = sweep("policy=fcfs,stopped,prefill_first", IN_PROCESS)
    assert status == 0 and set(statuses(rows).values()) == {"finished"} and len(rows) == 3
    assert stamps()["policy=fcfs"] == before


def test_ctrl_c_behind_the_last_job_promises_no_rest(capsys, monkeypatch):
    from twin.sweep import launch

    carry_through = launch.carry_through

    def interrupted(*given):
        carry_through(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "carry_through", interrupted)
    status, rows = sweep("policy=fcfs,prefill_first", IN_PROCESS)
    said = capsys.readouterr().err
    assert status == 130 and set(statuses(rows).values()) == {"finished"}
    assert "all 2 jobs have ended" in said and "rest" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trace.rate=1,-2", ["rate", "-2"]),
        ("policy=fcfs,fcsf", ["policy", "fcsf", "fcfs"]),
        ("policy=fcfs,vtc policy.alpha_=1", ["alpha_"]),
        ("trace.ratte=1,2", ["trace.ratte", "trace.rate"]),
        ("seed=1,x", ["seed=x"]),
        ("trace.rate=range(4,1)", ["no value"]),
        ("hydra.run.dir=x", ["hydra.sweep.dir"]),
        ("hydra.sweep.subdir=x", ["named after what is swept"]),
        ("hydra/sweeper=optuna", ["grids"]),
        ("hydra/launcher=nope", ["nope", "basic"]),
        ("hydra.launcher.nope=1 hydra/launcher=basic", ["hydra.launcher.nope"]),
        ("hydra.sweep.dir=1,2", ["hydra.sweep.dir"]),
        ("hydra.launcher=basic", ["hydra.launcher=basic", "hydra/launcher=NAME"]),
        ("hydra/launcher=ray_cluster hydra.launcher.cpus_per_job=x", ["cpus_per_job=x", "a number above 0"]),
        ("hydra/launcher=ray_cluster hydra.launcher.cpus_per_job=inf", ["cpus_per_job=inf", "a number above 0"]),
        ("hydra/launcher=ray_cluster hydra.launcher.retries=1.5", ["retries=1.5", "a whole number"]),
        ("hydra/launcher=ray_cluster hydra.launcher.num_cpus=-3", ["num_cpus=-3", "a whole number"]),
        ("hydra/launcher=ray_cluster hydra.launcher.runtime_env=x", ["runtime_env=x", "a mapping"]),
    ],
)
def test_a_mistake_in_one_axis_is_told_before_anything_runs(capsys, words, said):
    message = refused(capsys, *words.split())
    assert all(part in message for part in said), message


def test_several_values_without_m_are_told_what_they_lack(capsys):
    assert main(["run", *SMALL, "trace.rate=1,2"]) == 2
    assert "-m" in capsys.readouterr().err


def test_a_folder_of_the_default_name_is_made():
    assert main(["run", "-m", *SMALL, "policy=fcfs,prefill_first", IN_PROCESS]) == 0
    assert len(list(Path("multirun").glob("20*-*-*/*-*-*/sweep.parquet"))) == 1


def test_odd_words_reach_the_job_as_typed():
    status, rows = sweep("policy=fcfs,prefill_first", "trace.name=synthetic", "latency.per_seq_s=0.0", IN_PROCESS)
    assert status == 0
    Path("a,b $1").mkdir()
    Path("a,b $1/t r.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,16,2\n1,16,2\n")
    base = [word for word in SMALL if not word.startswith("trace")]
    words = ["trace=file", "trace.path='a,b $1/t r.csv'", "policy=fcfs,prefill_first", IN_PROCESS]
    assert main(["run", "-m", *base, *words, "hydra.sweep.dir=odd"]) == 0
    assert summary("odd", "policy=fcfs")["requests"] == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hydra.sweep.dir=", "empty"),
        ("hydra.sweep.dir=null", "not Optional"),
        ("hydra.sweep.dir=${nope}", "'nope' not found"),
        ("hydra.sweep.dir=${trace.rate}", "trace.rate"),
    ],
)
def test_a_folder_that_is_none_is_refused(capsys, word, said):
    message = complaint(capsys, "-m", *SMALL, "policy=fcfs,prefill_first", word)
    assert "hydra.sweep.dir" in message and said in message


def test_a_launcher_that_cannot_be_imported_is_told_before_anything_is_made(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    message = refused(capsys, "policy=fcfs,prefill_first", "hydra/launcher=ray_cluster")
    assert "Ray" in message and "pip install 'twin-serving[ray]'" in message


def test_a_folder_in_which_another_sweep_is_at_work_is_left_alone(capsys):
    assert sweep("policy=fcfs", IN_PROCESS)[0] == 0
    before = stamps()
    capsys.readouterr()
    with alone(Path("out")):
        assert main(["run", "-m", *SMALL, "policy=fcfs", "seed=0,1", IN_PROCESS, "hydra.sweep.dir=out"]) == 2
    assert "another sweep is at work there" in capsys.readouterr().err
    assert stamps() == before
    assert sweep("policy=fcfs", IN_PROCESS)[0] == 0
    assert not Path("out", LOCK).exists()


def test_a_lock_is_let_go_by_who_dies_in_it(tmp_path):
    code = """
import os, pathlib, twin.sweep.lock
with twin.sweep.lock.alone(pathlib.Path(".")):
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60).returncode == -9
    assert (tmp_path / LOCK).exists()
    with alone(tmp_path), pytest.raises(TakenError):
        alone(tmp_path).__enter__()
    assert not (tmp_path / LOCK).exists()


def test_a_sweep_has_its_own_page_where_pages_are_wanted():
    words = ("policy=fcfs", "seed=0,1", IN_PROCESS)
    assert sweep(*words, "output.report=true")[0] == 0
    page = Path("out/report.html").read_bytes()
    assert [row[0] for row in Parsed(page.decode()).tables[0]] == ["seed", "0", "1"]
    assert main(["report", "out"]) == 0
    assert Path("out/report.html").read_bytes() == page
    assert sweep(*words)[0] == 0
    assert not Path("out/report.html").exists()  # it would be that of other numbers, some day


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("summary.json", True),
        ("requests.parquet", True),
        ("steps.parquet", True),
        ("summary.json", False),
        ("requests.parquet", False),
        ("config.yaml", False),
    ],
)
def test_a_folder_that_is_cut_off_is_run_again(name, cut):
    assert sweep("policy=fcfs", "seed=0,1", IN_PROCESS)[0] == 0
    file = Path("out/seed=0", name)
    was = file.read_bytes()
    if cut:
        file.write_bytes(was[: len(was) // 2])
    else:
        file.unlink()
    before = stamps()
    status, rows = sweep("policy=fcfs", "seed=0,1", IN_PROCESS)
    assert status == 0 and [row["status"] for row in rows] == ["finished", "finished"]
    assert stamps()["seed=1"] == before["seed=1"]
    if name.endswith(".parquet"):
        assert file.read_bytes() == was


def test_seeds_are_saturated_together_where_most_of_them_are():
    busy = [{"complete": True, "saturated": told} for told in (True, None, False)]
    assert combined(busy, 3)["saturated"] is False  # one of the two that can tell is not most
    assert combined([*busy, busy[0]], 4)["saturated"] is True
    assert combined(busy[1:2] * 2, 2)["saturated"] is None
    words = ("policy=fcfs", "seeds=2", "trace.arrivals=constant(2)", "trace.num_requests=200", "scheduler.max_num_seqs=1")
    _, (row,) = sweep(*words, IN_PROCESS)  # 2 requests of 3 s each a second
    assert row["saturated"] is True
