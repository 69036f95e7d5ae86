"""Sweeps by real launchers on this machine: joblib, Ray, submitit's local one; workers killed in the middle, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import SMALL
from tests.sweep.sweeping import RANDOM, statuses, summary, sweep, write_policies
from twin.cli.main import main

RAY = ("hydra/launcher=ray_cluster", "hydra.launcher.num_cpus=2")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_policies(tmp_path)


@pytest.fixture
def joblib() -> str:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="the extra sweep is not installed: no joblib launcher")
    return "hydra/launcher=joblib"


@pytest.fixture
def ray() -> tuple[str, ...]:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    return RAY


def test_joblib_writes_the_bytes_of_single_runs(joblib):
    words = ("policy=fcfs,prefill_first", "seed=0,1", *RANDOM)
    status, rows = sweep(*words, joblib, "hydra.launcher.n_jobs=2")
    assert status == 0 and {row["status"] for row in rows} == {"finished"} and len(rows) == 4
    assert main(["run", *SMALL, *RANDOM, "policy=fcfs", "seed=1", "hydra.run.dir=alone"]) == 0
    for name in ("requests.parquet", "steps.parquet"):
        assert Path("out/policy=fcfs,seed=1", name).read_bytes() == Path("alone", name).read_bytes()


def test_a_worker_that_is_killed_costs_no_job(joblib):
    status, rows = sweep("policy=fcfs,dies_once,prefill_first", joblib, "hydra.launcher.n_jobs=2")
    assert Path("has_died").exists()
    assert status == 0 and set(statuses(rows).values()) == {"finished"} and len(rows) == 3


def test_a_job_that_always_kills_its_worker_fails_alone(joblib, capsys):
    status, rows = sweep("policy=fcfs,deadly,prefill_first", joblib, "hydra.launcher.n_jobs=2")
    assert status == 1
    assert statuses(rows) == {"fcfs": "finished", "deadly": "failed", "prefill_first": "finished"}
    assert "process died" in capsys.readouterr().err


def test_several_cores_are_used_unless_told_otherwise(joblib, capsys, monkeypatch):
    monkeypatch.setattr("twin.cli.sweep._cores", lambda: 2)
    assert sweep("policy=fcfs,prefill_first")[0] == 0
    assert "launcher joblib" in capsys.readouterr().out
    monkeypatch.setattr("twin.cli.sweep._cores", lambda: 1)
    assert sweep("policy=fcfs,prefill_first", folder="other")[0] == 0
    assert "launcher basic" in capsys.readouterr().out


def test_ctrl_c_among_workers_leaves_what_has_finished(joblib):
    Path("policies/waits.py").write_text(
        "import time\nfrom pathlib import Path\n\nfrom twin.policy import Policy\n\n\n"
        'class Waits(Policy):\n    """Waits for ever in the middle, until somebody says go."""\n\n'
        "    def order(self, request, view):\n        while view.now > 50 and not Path('go').exists():\n"
        "            Path('waiting').touch()\n            time.sleep(0.01)\n        return request.arrival_s\n"
    )
    words = [*SMALL, "policy=fcfs,prefill_first,waits", "hydra.sweep.dir=out", joblib, "hydra.launcher.n_jobs=1"]
    command = [sys.executable, "-m", "twin", "run", "-m", *words]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            until = time.monotonic() + 60
            while not Path("waiting").exists():
                assert running.poll() is None and time.monotonic() < until
                time.sleep(0.02)
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=60)
        finally:
            if running.poll() is None:
                running.kill()
    assert running.returncode == 130 and "2 of 3 jobs have ended" in said and "Traceback" not in said
    assert summary("out", "policy=fcfs")["finished"] == summary("out", "policy=prefill_first")["finished"] == 20
    Path("go").touch()
    status, rows = sweep("policy=fcfs,prefill_first,waits", "hydra/launcher=basic")
    assert status == 0 and set(statuses(rows).values()) == {"finished"} and len(rows) == 3


def test_ray_runs_jobs_and_survives_a_worker_that_dies(ray, capsys):
    status, rows = sweep("policy=fcfs,dies_once,deadly,failing", *ray)
    assert status == 1 and Path("has_died").exists()
    assert statuses(rows) == {"fcfs": "finished", "dies_once": "finished", "deadly": "failed", "failing": "failed"}
    assert "process died" in rows[2]["reason"] and "boom" in rows[3]["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hydra.launcher.address=127.0.0.1:1"], "no ray cluster answers"),
        (["hydra.launcher.cpus_per_job=-1", "hydra.launcher.num_cpus=1"], "above 0"),
        (["hydra.launcher.address=127.0.0.1:1", "hydra.launcher.num_cpus=1"], "started here"),
    ],
)
def test_a_cluster_that_cannot_be_is_told_and_no_folder_is_left(ray, capsys, words, said):
    status, rows = sweep("policy=fcfs,prefill_first", ray[0], *words)
    assert status == 2 and rows == [] and not Path("out").exists()
    assert said in capsys.readouterr().err.lower()


def test_submitit_runs_jobs(capsys):
    pytest.importorskip(
        "hydra_plugins.hydra_submitit_launcher", reason="the extra sweep is not installed: no submitit launcher"
    )
    status, rows = sweep("policy=fcfs,failing", "hydra/launcher=submitit_local")
    assert status == 1 and statuses(rows) == {"fcfs": "finished", "failing": "failed"}
