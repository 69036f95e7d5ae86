"""When a time is not to be trusted (cal-03, cal-04)."""

import os
import subprocess

import pytest

from engine.profile.contamination import (
    CpuLoad,
    CpuTimes,
    GpuLoad,
    busy_ticks,
    cpu_times,
    foreign_cpus,
    foreign_processes,
    reasons,
    run_tool,
    spread,
)


def test_spread_is_the_sample_standard_deviation_over_the_mean():
    assert spread([1.0, 2.0, 3.0]) == pytest.approx(0.5)  # sqrt((1 + 0 + 1) / 2) / 2
    assert spread([2.0, 2.0]) == 0.0
    assert spread([2.0]) is None


def test_a_clean_row():
    assert reasons(0.049, None, 0.0084, 0.0080) == []
    assert reasons(None, None, 0.0084, 0.0084) == []


def test_repeats_that_differ_by_more_than_5_percent():
    """cal-04: the 353 ms of a shared GPU among repeats of 8.4 ms."""
    found = spread([8.4e-3] * 4 + [353e-3])
    assert reasons(found, None, 8.4e-3, 8e-3) == ["repeats differ by 199.3%, above 5%"]
    assert reasons(spread([8.4e-3, 8.5e-3, 8.3e-3]), None, 8.4e-3, 8e-3) == []


def test_foreign_load_is_told_in_its_own_words():
    assert reasons(0.0, "2 other processes on the GPU", 1.0, 0.5) == ["2 other processes on the GPU"]


def test_a_device_that_is_busy_for_longer_than_the_step():
    """cal-03: a parent's 443.92 us and its kernel's 221.96 us add up to more than the step, whose wall is 450 us."""
    assert reasons(0.0, None, 450e-6, 443.92e-6) == []
    assert reasons(0.0, None, 450e-6, (443.92 + 221.96) * 1e-6) == [
        "the device was busy for 665.88 us of a step of 450.00 us"
    ]


def test_all_reasons_are_told():
    assert len(reasons(0.06, "others", 1.0, 2.0)) == 3


def test_busy_ticks_are_all_but_idle_and_waiting_for_disks():
    """user nice system idle iowait irq softirq steal guest guest_nice; guests are in user already."""
    assert busy_ticks("cpu  100 20 30 5000 400 5 6 7 50 10") == 100 + 20 + 30 + 5 + 6 + 7
    assert busy_ticks("cpu 1 2 3 4 5 6 7 8") == 1 + 2 + 3 + 6 + 7 + 8


def test_foreign_cpus_are_what_was_busy_less_our_own():
    """In 2 s the CPUs were busy for 3.5 s, 2 s of them ours: others used 0.75 CPUs."""
    assert foreign_cpus(CpuTimes(10.0, 4.0, 100.0), CpuTimes(13.5, 6.0, 102.0)) == pytest.approx(0.75)
    assert foreign_cpus(CpuTimes(10.0, 4.0, 100.0), CpuTimes(11.0, 6.0, 102.0)) == 0.0  # ticks are coarse


def test_cpu_load_tells_of_each_window_alone():
    moments = iter([CpuTimes(0.0, 0.0, 0.0), CpuTimes(1.05, 1.0, 1.0), CpuTimes(3.05, 2.0, 2.0), CpuTimes(4.05, 3.0, 3.0)])
    load = CpuLoad(lambda: next(moments), cpus=2)
    assert [load.read() for _ in range(3)] == [None, "other processes used 1.0 of 2 CPUs", None]


def test_a_short_window_is_judged_together_with_the_one_before_it():
    """A single tick of 10 ms in 0.1 s would be a tenth of a CPU; with the second before it, it is nothing."""
    moments = iter([CpuTimes(0.0, 0.0, 0.0), CpuTimes(1.0, 1.0, 1.0), CpuTimes(1.11, 1.0, 1.1), CpuTimes(2.11, 1.5, 2.1)])
    load = CpuLoad(lambda: next(moments), cpus=1)
    assert [load.read() for _ in range(2)] == [None, "other processes used 0.1 of 1 CPUs"]  # 0.11 s of 1.1
    assert load.read() == "other processes used 0.5 of 1 CPUs"
    moments = iter([CpuTimes(0.0, 0.0, 0.0), CpuTimes(1.0, 1.0, 1.0), CpuTimes(1.11, 1.1, 1.1)])
    load = CpuLoad(lambda: next(moments), cpus=1)
    assert [load.read() for _ in range(2)] == [None, None]  # 0.01 s of 1.1


def test_a_system_without_such_a_file_says_so(tmp_path):
    assert cpu_times(tmp_path / "stat") is None
    load = CpuLoad(lambda: None)
    assert load.read() is None
    assert load.why_not() == "other processes' load is unknown: this system has no /proc/stat"


def test_cpu_times_of_a_file(tmp_path):
    (tmp_path / "stat").write_text("cpu  100 0 100 9 9 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    times = cpu_times(tmp_path / "stat")
    assert times is not None and times.busy_s == 200 / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "listed, others",
    [([], 0), ([7], 0), ([7, 8], 1), ([7, 8, 9], 2), ([3], 0), ([3, 4], 1)],
)
def test_other_processes_on_a_gpu(listed: list[int], others: int):
    """We are 7; in a container we are listed under a number that is not ours, as one of them all the same."""
    assert foreign_processes(listed, 7) == others


def test_gpu_load_asks_nvidia_smi():
    asked = []
    answers = iter(["", f"{os.getpid()}\n", f"{os.getpid()}\n4711\n"])

    def run(command: list[str]) -> str:
        asked.append(command)
        return next(answers)

    load = GpuLoad("GPU-12", run)
    assert [load.read(), load.read()] == [None, "1 other process on the GPU"]
    assert asked[-1] == ["nvidia-smi", "--id=GPU-12", "--query-compute-apps=pid", "--format=csv,noheader"]
    assert load.why_not() is None


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 10), subprocess.CalledProcessError(9, "nvidia-smi")],
)
def test_a_tool_that_cannot_tell_is_no_obstacle(error: Exception):
    def run(command: list[str]) -> str:
        raise error

    load = GpuLoad("GPU-12", run)
    assert load.read() is None
    assert load.why_not() == f"other processes on the GPU are unknown: {type(error).__name__} of nvidia-smi"


def test_a_tool_that_fails_raises():
    with pytest.raises(subprocess.CalledProcessError):
        run_tool(["false"])
    assert run_tool(["echo", "12"]) == "12\n"
