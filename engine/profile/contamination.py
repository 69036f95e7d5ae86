"""Whether a time can be trusted: what else ran on the machine, and whether repeats of one step agree.

Three things make a row contaminated: other processes at work while it was measured, repeats of its point that differ by more
than 5 % (coefficient of variation), and a device that says it was busy for longer than the step lasted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

MOST_SPREAD = 0.05  # standard deviation over mean, of the repeats of one point
MOST_FOREIGN_SHARE = 0.05  # of the machine's CPUs
SHORTEST_WINDOW_S = 0.25  # 25 ticks of a CPU; a shorter one is judged together with the one before it
CLOCK_TOLERANCE_S = 2e-6  # CUDA events count in half microseconds
TOOL_TIMEOUT_S = 10
Run = Callable[[list[str]], str]


def spread(durations: Sequence[float]) -> float | None:
    """Their coefficient of variation: sample standard deviation over mean. None where there is but one."""
    return statistics.stdev(durations) / statistics.fmean(durations) if len(durations) > 1 else None


def reasons(spread: float | None, foreign: str | None, duration_s: float, device_s: float) -> list[str]:
    """Why a row is contaminated; empty where it is not.

    `spread` is that of its point, `foreign` what the reader of the load said. `duration_s` is the step on the host's clock,
    `device_s` one interval on the device's: it is not a sum over kernels, in which nested ones would count twice.
    """
    found = []
    if spread is not None and spread > MOST_SPREAD:
        found.append(f"repeats differ by {spread:.1%}, above {MOST_SPREAD:.0%}")
    if foreign is not None:
        found.append(foreign)
    if device_s > duration_s + CLOCK_TOLERANCE_S:
        found.append(f"the device was busy for {device_s * 1e6:.2f} us of a step of {duration_s * 1e6:.2f} us")
    return found


class LoadReader(Protocol):
    """Tells what others did on the machine. It is asked every `window_s` seconds or so."""

    window_s: float

    def why_not(self) -> str | None:
        """Why it cannot tell, in words; None where it can."""
        ...

    def read(self) -> str | None:
        """What others did since the last call, in words; None where it was nothing to speak of."""
        ...


class CpuTimes(NamedTuple):
    """At one moment, in seconds since whenever."""

    busy_s: float  # all CPUs, all processes; also what a hypervisor gave to others
    own_s: float  # this process and its children
    at_s: float


class CpuLoad:
    """CPU time of other processes, from /proc/stat. It counts in ticks of 10 ms, hence windows of a second."""

    window_s = 1.0

    def __init__(self, now: Callable[[], CpuTimes | None] | None = None, cpus: int | None = None) -> None:
        self._now = now or cpu_times
        self.cpus = cpus or os.cpu_count() or 1
        self._last = self._before = self._now()

    def why_not(self) -> str | None:
        return None if self._last else "other processes' load is unknown: this system has no /proc/stat"

    def read(self) -> str | None:
        now = self._now()
        if now is None or self._last is None or self._before is None:
            return None
        since = self._last if now.at_s - self._last.at_s >= SHORTEST_WINDOW_S else self._before
        self._before, self._last = self._last, now
        others = foreign_cpus(since, now) if now.at_s > since.at_s else 0.0
        if others <= MOST_FOREIGN_SHARE * self.cpus:
            return None
        return f"other processes used {others:.1f} of {self.cpus} CPUs"


def foreign_cpus(before: CpuTimes, after: CpuTimes) -> float:
    """How many CPUs other processes kept busy between two moments."""
    foreign_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(0.0, foreign_s / (after.at_s - before.at_s))


def cpu_times(stat: Path = Path("/proc/stat")) -> CpuTimes | None:
    """Now, by the first line of /proc/stat (proc(5)); None where there is none."""
    try:
        line = stat.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    own = os.times()
    return CpuTimes(busy_ticks(line) / os.sysconf("SC_CLK_TCK"), sum(own[:4]), time.monotonic())


def busy_ticks(line: str) -> int:
    """Of "cpu user nice system idle iowait irq softirq steal guest guest_nice": all but idle and iowait.

    Guests are counted in user and nice already.
    """
    user, nice, system, _, _, *rest = map(int, line.split()[1:9])
    return user + nice + system + sum(rest)


class GpuLoad:
    """Other processes on the GPU, as nvidia-smi lists them."""

    window_s = 10.0  # the tool takes up to half a second

    def __init__(self, uuid: str, run: Run | None = None) -> None:
        """`uuid`: of the device, as NVML writes it ("GPU-...")."""
        self.uuid, self._run = uuid, run or run_tool
        self._why_not: str | None = None
        self._list()

    def why_not(self) -> str | None:
        return self._why_not

    def read(self) -> str | None:
        others = foreign_processes(self._list(), os.getpid())
        return f"{others} other process{'es' if others > 1 else ''} on the GPU" if others else None

    def _list(self) -> list[int]:
        command = ["nvidia-smi", f"--id={self.uuid}", "--query-compute-apps=pid", "--format=csv,noheader"]
        try:
            return [int(line) for line in self._run(command).split() if line.isdigit()]
        except (OSError, subprocess.SubprocessError) as error:
            self._why_not = f"other processes on the GPU are unknown: {type(error).__name__} of nvidia-smi"
            return []


def foreign_processes(listed: Sequence[int], own: int) -> int:
    """How many of those that use the GPU are others. In a container ours may be listed under another number."""
    others = set(listed) - {own}
    return len(others) if own in listed else max(0, len(others) - 1)


def run_tool(command: list[str]) -> str:
    """What a program prints. Raises OSError or SubprocessError where it does not run, fails, or hangs."""
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True).stdout


def load_reader(device: torch.device) -> LoadReader:
    """Who tells of others on this device. On a GPU the host's load counts as far as repeats differ."""
    if device.type == "cpu":
        return CpuLoad()
    return GpuLoad(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
