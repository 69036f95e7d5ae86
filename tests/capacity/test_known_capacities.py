"""Servers whose capacity under an objective is known in closed form, from the command line."""

from pathlib import Path

import pytest

from tests.capacity.servers import CLOCKWORK, SERVER, searched, table
from twin.cli.main import main
from twin.results.load import RunError, load_run

# Request i = 0 .. 100 arrives at i / rate and is served a second: beyond one a second it waits i (1 - 1 / rate).
WAIT_10 = {
    "slo.queue_mean=10": 1 / (1 - 10 / 50),
    "slo.queue_p50=10": 1 / (1 - 10 / 50),
    "slo.queue_p90=10": 1 / (1 - 10 / 90),
    "slo.queue_p99=10": 1 / (1 - 10 / 99),
    "slo.ttft_p99=11": 1 / (1 - 10 / 99),
    "slo.e2e_mean=11": 1 / (1 - 10 / 50),
    "slo.ttft_s=11 slo.attainment=0.9": 1 / (1 - 10 / 90),  # 91 of 101, the last of which is i = 90
    "slo.ttft_s=11 slo.attainment=1": 1 / (1 - 10 / 100),
    "slo.queue_p50=10 slo.queue_p90=10": 1 / (1 - 10 / 90),  # several: the tighter one
    "slo.queue_p50=1 slo.queue_p90=10": 1 / (1 - 1 / 50),
}


@pytest.mark.parametrize("objectives", WAIT_10)
def test_a_clockwork_server(objectives: str, tmp_path: Path):
    found = searched(tmp_path / "out", *CLOCKWORK, *objectives.split())
    assert found["outcome"] == "found" and found["complete"] is True and found["monotone"] is True
    assert found["rate"] <= WAIT_10[objectives] * (1 + 1e-9) < found["missed_rate"] <= found["rate"] * 1.002
    assert (found["rate_low"], found["rate_high"]) == (None, None)  # one seed says nothing of how sure it is


def test_the_mean_wait_of_m_d_1(tmp_path: Path):
    """Pollaczek, Khinchine: W = rate / (2 (1 - rate)) for a service of one second: 1 s at a rate of 2/3."""
    words = (*SERVER, "trace.arrivals=poisson(0.5)", "slo.queue_mean=1", "seeds=4", "trace.num_requests=1200")
    found = searched(tmp_path / "out", *words)
    assert found["rate_low"] <= 2 / 3 <= found["rate_high"]
    assert found["rate_low"] <= found["rate"] < found["missed_rate"] <= found["rate_high"]
    assert found["rate_high"] / found["rate_low"] < 1.3  # narrow enough to say something


def test_the_same_seeds_give_the_same_answer_in_one_process_and_in_several(tmp_path: Path):
    words = (*SERVER, "trace.arrivals=poisson(0.5)", "slo.queue_mean=1", "seeds=2", "trace.num_requests=200",
             "capacity.tolerance=0.1")  # fmt: skip
    one, two = (searched(tmp_path / jobs, *words, f"capacity.jobs={jobs}") for jobs in ("1", "2"))
    assert one | {"command": ""} == two | {"command": ""} | {"run": one["run"]}
    assert (tmp_path / "1" / "probes.csv").read_bytes() == (tmp_path / "2" / "probes.csv").read_bytes()


def test_the_mean_wait_of_m_m_1(tmp_path: Path):
    """W = rate E[S²] / (2 (1 - rate)), S geometric in 100 steps of 10 ms: E[S²] = 1.99 s², so W = 1 s at 1 / 1.995."""
    found = searched(tmp_path / "out", *SERVER, "latency.base_s=0.01", "trace.output_tokens=geometric(100)", "seeds=4",
                     "trace.arrivals=poisson(0.5)", "slo.queue_mean=1", "trace.num_requests=800",
                     "capacity.tolerance=0.05")  # fmt: skip
    assert found["rate_low"] <= 1 / 1.995 <= found["rate_high"] and found["rate_high"] / found["rate_low"] < 1.8


def test_a_queue_that_grows_is_above_the_capacity_however_lax_the_objective(tmp_path: Path):
    """A run of 200 seconds cannot make anybody wait an hour, but beyond one request a second a longer one would."""
    words = (*CLOCKWORK, "trace.num_requests=201", "slo.ttft_p99=3600", "capacity.steady=true")
    found = searched(tmp_path / "out", *words)
    assert 0.98 <= found["rate"] <= 1.03 and found["missed_by"] == "the queue grows"


def test_seats_and_budget_limit_what_a_step_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A step of a second serves min(seats, budget) requests of one token."""
    words = (*CLOCKWORK, "capacity.steady=true", "trace.num_requests=201", "slo.queue_p99=2", "capacity.tolerance=0.02",
             "output.figures=true")  # fmt: skip
    axes = ("scheduler.max_num_seqs=1,2,4", "scheduler.max_num_batched_tokens=1,2,4")
    found = searched(tmp_path / "out", "-m", *words, *axes)
    rows = table(tmp_path / "out" / "settings.csv")
    assert len(rows) == 9
    for row in rows:
        served = min(int(row["scheduler.max_num_seqs"]), int(row["scheduler.max_num_batched_tokens"]))
        assert float(row["rate"]) == pytest.approx(served, rel=0.03)
    assert found["setting"] == {"scheduler.max_num_seqs": "4", "scheduler.max_num_batched_tokens": "4"}
    assert (tmp_path / "out" / "figures" / "heat_map.png").read_bytes().startswith(b"\x89PNG")
    assert "max_num_seqs" in capsys.readouterr().out
    assert {row["scheduler.max_num_seqs"] for row in table(tmp_path / "out" / "probes.csv")} == {"1", "2", "4"}


def test_optuna_finds_the_best_of_a_space(tmp_path: Path):
    pytest.importorskip("optuna")
    words = (*CLOCKWORK, "capacity.steady=true", "slo.queue_p99=2", "capacity.tolerance=0.05", "capacity.trials=12")
    axes = ("scheduler.max_num_seqs=interval(1,8)", "scheduler.max_num_batched_tokens=1,2,4")
    found = searched(tmp_path / "out", "-m", *words, *axes)
    rows = table(tmp_path / "out" / "settings.csv")
    assert 3 <= len(rows) <= 12  # a setting that is proposed again is not measured again
    assert found["rate"] == max(float(row["rate"]) for row in rows) == pytest.approx(4, rel=0.08)
    assert (
        found["setting"]["scheduler.max_num_batched_tokens"] == "4" and int(found["setting"]["scheduler.max_num_seqs"]) >= 4
    )
    searched(tmp_path / "again", "-m", *words, *axes)
    assert (tmp_path / "again" / "settings.csv").read_bytes() == (tmp_path / "out" / "settings.csv").read_bytes()


def test_the_command_that_it_names_gives_the_same_figures(tmp_path: Path):
    import shlex

    found = searched(tmp_path / "out", *SERVER, "trace.arrivals=poisson(0.5)", "slo.queue_mean=1", "slo.e2e_p99=20",
                     "seeds=2", "trace.num_requests=300", "capacity.tolerance=0.1")  # fmt: skip
    words = shlex.split(found["run"])
    assert words[:3] == ["python", "-m", "twin"]
    assert main([*words[3:], "output.figures=false", "output.report=false", f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    summaries = [load_run(tmp_path / "run" / f"seed={seed}").summary for seed in (0, 1)]
    for name, key in (("queue_mean", "queue_s_mean"), ("e2e_p99", "e2e_s_p99")):
        assert found[name] == sum(summary[key] for summary in summaries) / 2
    with pytest.raises(RunError):  # several seeds: the folder itself is none of a run
        load_run(tmp_path / "run")
