"""Whose time a run's time is: the host's, or the CPU time of the thread that computes. The clocks here are made up."""

import itertools
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from engine.choosing import Chosen
from engine.device import Clock, CpuClock, clock_for
from engine.options import check_clock
from tests.engine.cli.commands import run
from twin.cli.errors import UserError


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def ticking(monkeypatch: pytest.MonkeyPatch, name: str, step_s: float) -> None:
    """That clock moves by so much whenever it is looked at, and for no other reason."""
    looks = itertools.count()
    monkeypatch.setattr(time, name, lambda: 100.0 + next(looks) * step_s)


def test_the_options_say_which_clock():
    assert type(clock_for({"clock": "cpu", "skip_idle": False})) is CpuClock
    wall = clock_for({"clock": "wall", "skip_idle": True})
    assert type(wall) is Clock and wall.skip_idle
    assert not clock_for({"clock": "wall", "skip_idle": False}).skip_idle


def test_a_step_is_done_when_the_clock_of_the_run_says_so(monkeypatch: pytest.MonkeyPatch):
    """On the host's clock when its tokens came, 107 s; on the thread's at the next look, which is the fourth: 103 s."""
    chosen = Chosen([], [], 0.0, 107.0)
    for name in ("perf_counter", "thread_time"):
        ticking(monkeypatch, name, 1.0)
    wall, cpu = Clock(), CpuClock()
    wall.start()
    cpu.start()
    assert cpu.at(cpu.now_s()) == 1.0 and cpu.at(cpu.now_s()) == 2.0
    assert wall.done_s(chosen) == 7.0 and cpu.done_s(chosen) == 3.0


def test_nobody_sleeps_on_the_cpu_clock(monkeypatch: pytest.MonkeyPatch):
    """The clock is set forward: it would stand still for ever, since who sleeps uses no CPU time."""
    ticking(monkeypatch, "thread_time", 0.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("slept"))
    clock = CpuClock()
    clock.sleep_until(3600.0)
    assert clock.at(clock.now_s()) == 3600.0
    clock.sleep_until(5.0)  # that is past
    assert clock.at(clock.now_s()) == 3600.0


def test_time_of_day_does_not_come_into_a_run_on_the_cpu_clock(monkeypatch: pytest.MonkeyPatch):
    """However the host's clock jumps about: each step takes as much as the thread's clock moves, one look a step."""
    tables = []
    for seed in range(2):
        draw = np.random.default_rng(seed)
        ticking(monkeypatch, "thread_time", 0.25)
        monkeypatch.setattr(time, "perf_counter", lambda draw=draw: float(draw.random() * 1e6))
        run("engine.clock=cpu", "trace.arrivals=burst()", folder=f"out{seed}")
        tables.append(pd.read_parquet(f"out{seed}/steps.parquet").drop(columns="device_s"))
    one, other = tables
    pd.testing.assert_frame_equal(one, other)
    assert (one["duration_s"] == 0.25).all() and len(one) > 20


@pytest.mark.parametrize(
    "device, threads, asynchronous, there",
    [("cuda", 1, False, "on cuda"), ("cpu", 4, False, "with 4 threads"), ("cpu", 1, True, "asynchronously")],
)
def test_other_threads_have_other_cpu_time(device: str, threads: int, asynchronous: bool, there: str):
    config = {"engine": {"clock": "cpu"}, "scheduler": {"async_scheduling": asynchronous}}
    with pytest.raises(UserError, match=f"engine.clock=cpu: .* computed {there}; take engine.clock=wall"):
        check_clock(config, device, threads)
    check_clock({"engine": {"clock": "wall"}, "scheduler": config["scheduler"]}, device, threads)
    check_clock({"engine": {"clock": "cpu"}, "scheduler": {"async_scheduling": False}}, "cpu", 1)
