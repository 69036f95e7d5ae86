"""Seconds of launches on the device, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch import Tensor

Launch = Callable[[], object]
Timer = Callable[[Launch], float]


def timer_of(device: torch.device) -> Timer:
    return by_events if device.type == "cuda" else by_clock


def by_events(launch: Launch) -> float:
    """Of the second of two launches, between CUDA events: while the device is busy with the first, the host can put the
    second and its events behind it, so that its own time for that does not count."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    launch()
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def by_clock(launch: Launch) -> float:
    began_s = time.perf_counter()
    launch()
    return time.perf_counter() - began_s


def interleaved(timers: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The median seconds of each. They take turns: what drifts (clocks, heat) reaches all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(repeats):
        for name, timed in timers.items():
            seconds[name].append(timed())
    return {name: median(each) for name, each in seconds.items()}


class DeviceCopy:
    """A copy on the device, which everything else is measured against."""

    def __init__(self, device: torch.device, copied_bytes: int, timer: Timer) -> None:
        self.copied_bytes, self.timer = copied_bytes, timer
        self.source = torch.ones(copied_bytes // 4, dtype=torch.float32, device=device)
        self.target = torch.zeros_like(self.source)

    def seconds(self) -> float:
        return self.timer(lambda: self.target.copy_(self.source))


def recorded(launch: Launch) -> Launch:
    """What replays a launch from a CUDA graph. It has run before, so that all is compiled and allocated."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def computed_anew(launch: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """A recorder for the engine's `DecodeGraphs` where there is no CUDA: the output stays where it is."""
    output = launch().clone()

    def replay() -> None:
        output.copy_(launch())

    return output, replay
