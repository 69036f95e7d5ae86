"""Recorded durations played back."""

import gzip

import pytest

from twin.core.batch import Features
from twin.latency.replay import ReplayLatency
from twin.latency.replay_files import read_durations

STEP = Features(1, 0, 1, 5)


def test_durations_come_in_order_whatever_the_step():
    model = ReplayLatency([0.5, 0.25, 0.125])
    assert model.step_s(Features(1, 9, 0, 9, 9)) == 0.5
    assert model.stretch(1.0, 1, 10, 2, 100.0) == [1.25, 1.375]


def test_running_out_says_so():
    model = ReplayLatency([0.5], "steps.csv")
    model.step_s(STEP)
    with pytest.raises(ValueError, match="1 steps are recorded in steps.csv, the run wants step 2"):
        model.step_s(STEP)


@pytest.mark.parametrize("durations", [[], [0.5, 0.0], [0.5, -1.0], [float("nan")]])
def test_durations_that_are_none_are_refused(durations):
    with pytest.raises(ValueError, match="latency=replay"):
        ReplayLatency(durations)


def test_files_of_an_engine_and_of_the_simulator_are_read(tmp_path):
    csv = tmp_path / "steps.csv"
    csv.write_text("start_s,end_s\n0,0.5\n0.5,0.5\n0.5,0.75\n")
    assert read_durations(csv) == [0.5, 0.25]  # a plan of no duration was not run
    repeated = tmp_path / "repeated.csv"
    repeated.write_text("duration_s,repeat\n0.5,1\n1.5,3\n")
    assert read_durations(repeated) == [0.5, 0.5, 0.5, 0.5]
    lines = tmp_path / "decisions.jsonl.gz"
    with gzip.open(lines, "wt") as file:
        file.write('{"step": 1, "start_s": 0.0, "end_s": 0.5}\n{"summary": {"steps": 1}}\n')
    assert read_durations(lines) == [0.5]


def test_the_steps_table_of_a_run_is_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "steps.parquet"
    pandas.DataFrame({"duration_s": [0.5, 1.0], "repeat": [1, 2]}).to_parquet(path)
    assert read_durations(path) == [0.5, 0.5, 0.5]


def test_a_file_without_durations_is_refused_by_column(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("step\n1\n")
    with pytest.raises(ValueError, match=r"missing column duration_s \(or start_s and end_s\)"):
        read_durations(path)
    with pytest.raises(ValueError, match="no such file"):
        read_durations(tmp_path / "none.csv")
