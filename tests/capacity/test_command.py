"""`twin capacity`: how it ends, what it leaves, what it refuses."""

import json
from pathlib import Path

import pytest

from tests.capacity.servers import CLOCKWORK, SERVER, searched, table
from twin.capacity.search import OutOfTime
from twin.cli.capacity_probe import Prober
from twin.cli.main import main


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["capacity", *words]) == 2
    output = capsys.readouterr()
    assert len(output.err.splitlines()) == 1
    return output.err


def test_an_objective_that_no_rate_meets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A step takes a second, so nobody has a token sooner."""
    found = searched(tmp_path / "out", *CLOCKWORK, "slo.ttft_p99=0.5", status=1)
    assert (found["outcome"], found["rate"], found["complete"]) == ("none", None, True)
    assert found["ttft_p99"] == pytest.approx(1.0) and found["ttft_p99_limit"] == 0.5
    assert "the best reachable, at" in (printed := capsys.readouterr().out) and "ttft_p99 1 s of 0.5 s" in printed


def test_an_objective_that_every_rate_tried_meets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = searched(tmp_path / "out", *CLOCKWORK, "slo.queue_p99=1000", "capacity.most_rate=5")
    assert (found["outcome"], found["rate"]) == ("all", 5.0)
    assert "at least 5 requests/s, the highest rate tried" in capsys.readouterr().out


def test_requests_that_are_refused_count_as_missed(tmp_path: Path):
    """Every second prompt is longer than the model takes: half of the requests never get a token, at any rate."""
    words = (*CLOCKWORK, "trace.prompt_tokens=choice(1:0.5,200:0.5)", "model.max_model_len=100")
    assert searched(tmp_path / "out", *words, "slo.ttft_p99=100", status=1)["outcome"] == "none"
    found = searched(tmp_path / "lax", *words, "slo.ttft_s=100", "slo.attainment=0.3", "capacity.most_rate=4")
    served = [int(row["finished"]) / int(row["requests"]) for row in table(tmp_path / "lax" / "probes.csv")]
    assert found["outcome"] == "all" and found["attainment"] == served[-1] < 0.7


@pytest.mark.parametrize(
    ("end", "status", "says"), [(KeyboardInterrupt, 130, "interrupted"), (OutOfTime, 1, "stopped after")]
)
def test_what_was_found_is_kept(end, status: int, says: str, tmp_path: Path, monkeypatch, capsys):
    probe = Prober.probe

    def broken_off(self: Prober, composed, rate: float):
        if self.simulated >= 3 * 101:
            raise end
        return probe(self, composed, rate)

    monkeypatch.setattr(Prober, "probe", broken_off)
    found = searched(tmp_path / "out", *CLOCKWORK, "slo.queue_p99=10", "simulate.max_wall_s=1000", status=status)
    assert (found["complete"], found["outcome"], found["probes"]) == (False, "unfinished", 3)
    assert found["rate"] == pytest.approx(1.0, abs=0.02) and len(table(tmp_path / "out" / "probes.csv")) == 3
    output = capsys.readouterr()
    assert f"{says}" in output.err and "what was found until then is saved" in output.err and "not finished" in output.out


def test_a_search_that_runs_out_of_probes_is_not_finished(tmp_path: Path, capsys):
    found = searched(tmp_path / "out", *CLOCKWORK, "slo.queue_p99=10", "capacity.max_probes=2", status=1)
    assert (found["outcome"], found["probes"]) == ("unfinished", 2)
    assert "not finished" in capsys.readouterr().out


def test_an_interruption_before_anything_was_measured_leaves_nothing(tmp_path: Path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Prober, "probe", interrupted)
    assert main(["capacity", *CLOCKWORK, "slo.queue_p99=10", f"hydra.run.dir={tmp_path / 'out'}"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_what_it_leaves(tmp_path: Path):
    words = (*SERVER, "trace.arrivals=poisson(0.5)", "trace.num_requests=60", "seeds=2", "slo.queue_mean=1",
             "output.figures=true", "capacity.tolerance=0.3")  # fmt: skip
    found = searched(tmp_path / "out", *words)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == [
        "capacity.json", "capacity.png", "config.yaml", "figures", "probes.csv"]  # fmt: skip
    rows = table(tmp_path / "out" / "probes.csv")
    assert [row["seed"] for row in rows] == ["0", "1"] * found["probes"]
    assert rows[0]["requests"] == "54" and found["warmup_requests"] == 6  # a tenth is left out
    at_rate = [float(row["queue_mean"]) for row in rows if float(row["rate"]) == found["rate"]]
    assert found["queue_mean"] == sum(at_rate) / 2
    assert [row["met"] for row in rows] == ["1" if float(row["rate"]) <= found["rate"] else "0" for row in rows]


def test_a_second_search_in_the_same_folder_leaves_nothing_of_the_first(tmp_path: Path):
    words = (*CLOCKWORK, "slo.queue_p99=10", "capacity.tolerance=0.5")
    searched(tmp_path / "out", *words, "output.figures=true", "-m", "scheduler.max_num_seqs=1,2")
    assert (tmp_path / "out" / "settings.csv").exists() and (tmp_path / "out" / "figures" / "heat_map.png").exists()
    searched(tmp_path / "out", *words)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if not path.is_dir()) == [
        "capacity.json", "config.yaml", "probes.csv"]  # fmt: skip
    assert list((tmp_path / "out" / "figures").iterdir()) == []


def test_what_is_in_the_way_is_told_before_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "settings.csv").mkdir()
    assert "settings.csv: a folder of that name is in the way" in refused(
        capsys, *CLOCKWORK, "slo.queue_p99=10", f"hydra.run.dir={tmp_path}"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["settings.csv"]


def test_seeds_that_do_not_differ_give_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = searched(tmp_path / "out", *CLOCKWORK, "slo.queue_p99=10", "seeds=3", "capacity.tolerance=0.1")
    assert (found["seeds"], found["rate_low"], found["rate_high"]) == (1, None, None)
    assert {row["seed"] for row in table(tmp_path / "out" / "probes.csv")} == {"0"}
    assert "the seeds do not differ" in capsys.readouterr().out


def test_a_warm_up_that_is_given_is_the_one_that_is_left_out(tmp_path: Path):
    found = searched(tmp_path / "out", *CLOCKWORK, "capacity.warmup=0.5", "warmup_requests=3", "slo.queue_p99=10")
    assert found["warmup_requests"] == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "slo: no objective is given"),
        (("slo.ttft_p99=-1",), "slo.ttft_p99=-1: must be a number above 0"),
        (("slo.ttft_p98=1",), "slo.ttft_p98: no such option; did you mean slo.ttft_p99?"),
        (("slo.ttft_p99=1", "capacity.tolerance=0"), "capacity.tolerance=0: must be a number of at least 0.001"),
        (("slo.ttft_p99=1", "capacity.least_rate=3", "capacity.most_rate=2"), "capacity.least_rate=3: must be below"),
        (("slo.ttft_p99=1", "trace.arrivals=closed(8,think=0)"), "trace.arrivals=closed"),
        (("slo.ttft_p99=1", "scheduler.max_num_seqs=1,2"), "with -m the best of several is looked for"),
        (("slo.ttft_p99=1", "-m"), "-m: no option has several values"),
        (("slo.ttft_p99=1", "-m", "scheduler.max_num_seqs=interval(1,8)"), "give capacity.trials=N"),
        (("slo.ttft_p99=1", "-m", "scheduler.max_num_seqs=interval(8,1)"), "the lesser first"),
        (("slo.ttft_p99=1", "capacity.trials=3"), "there is nothing to choose from"),
        (("slo.tpot_p99=1",), "no request of this trace has such a time"),  # every output is one token
        (("slo.ttft_p99=1", "policy=fcsf"), "policy=fcsf: no such policy"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words, says, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, *SERVER, *words, "hydra.run.dir=out")
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_had_is_named_and_the_others_are_searched(tmp_path: Path):
    words = (*CLOCKWORK, "slo.queue_p99=10", "capacity.tolerance=0.1", "-m", "scheduler.max_num_seqs=1,0")
    found = searched(tmp_path / "out", *words)
    rows = table(tmp_path / "out" / "settings.csv")
    assert [row["outcome"] for row in rows] == ["found", "failed"] and "must be an integer of at least 1" in rows[1]["why"]
    assert found["setting"] == {"scheduler.max_num_seqs": "1"}


def test_a_policy_that_raises_ends_the_search_with_one_message(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "broken.py").write_text(
        'from twin.policy import Policy\n\n\nclass Broken(Policy):\n    "Raises."\n\n'
        "    def order(self, request, view):\n        raise RuntimeError('oh')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["capacity", *CLOCKWORK, "policy=broken", "slo.queue_p99=10", "hydra.run.dir=out"]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "broken.py" in error and "RuntimeError" in error
    assert not (tmp_path / "out").exists()


def test_the_presets(tmp_path: Path):
    """Sarathi-Serve's limit is five decode steps of 32 requests with 4,096 tokens: here of 0.1 s + 32 x 1 ms."""
    words = (*CLOCKWORK, "latency.base_s=0.1", "latency.per_seq_s=0.001", "trace.output_tokens=10", "capacity.most_rate=2",
             "capacity.tolerance=0.1")  # fmt: skip
    found = searched(tmp_path / "s", *words, "slo=sarathi")
    assert found["itl_p99_limit"] == pytest.approx(5 * 0.132) and found["queue_p50_limit"] == 2.0
    assert found["itl_p99"] == pytest.approx(0.101)  # one seat: each token takes a step
    found = searched(tmp_path / "d", *words, "slo=distserve", "slo.tpot_s=0.2", "slo.ttft_s=0.15")
    assert (found["attainment_limit"], found["ttft_limit"], found["tpot_limit"]) == (0.9, 0.15, 0.2)


def test_a_run_says_which_objectives_it_does_not_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    quick = ("trace.num_requests=5", "output.figures=false", "output.report=false", f"hydra.run.dir={tmp_path}")
    assert main(["run", "slo=sarathi", *quick]) == 0
    assert "note: slo.itl_p99_decode_steps, slo.queue_p50: an objective of twin capacity" in capsys.readouterr().out
    assert main(["run", "slo=distserve", *quick]) == 0
    assert "twin capacity" not in (printed := capsys.readouterr().out) and "met the SLO" in printed


def test_the_configuration_that_is_kept_has_the_objectives(tmp_path: Path):
    import yaml

    searched(tmp_path / "out", *CLOCKWORK, "slo.queue_p99=10", "capacity.tolerance=0.5")
    kept = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert kept["slo"]["queue_p99"] == 10 and kept["capacity"]["tolerance"] == 0.5


def test_help_shows_its_options(capsys):
    assert main(["capacity", "--help", "slo=sarathi"]) == 0
    printed = capsys.readouterr().out
    for words in ("capacity.tolerance=0.02", "slo.queue_p50=2.0", "usage: python -m twin capacity"):
        assert words in printed


def test_the_file_is_json_without_nan(tmp_path: Path):
    searched(tmp_path / "out", *CLOCKWORK, "slo.ttft_p99=0.5", status=1)
    assert "NaN" not in (text := (tmp_path / "out" / "capacity.json").read_text()) and "Infinity" not in text
    assert json.loads(text)["command"].startswith("python -m twin capacity policy=fcfs")
