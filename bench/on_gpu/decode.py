"""Decode steps of a whole model against the time that reading its weights, keys and values takes at the copy's rate.

The steps are those of the engine's own executor (engine/profile/stepper.py): from the preparation on the host to the tokens
on the host, greedy, one step at a time. `device_s` is the part between two events on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from statistics import median

import torch
from torch import Tensor

from bench.on_gpu import roofline
from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Note, Part, Row
from bench.on_gpu.options import fitting_model, options
from bench.on_gpu.setup import GB, Setup
from bench.on_gpu.timing import DeviceCopy, computed_anew, timer_of
from engine.build import Loaded, load
from engine.decode_graphs import DecodeGraphs
from engine.errors import EngineError, StepFailure
from engine.profile.composition import Composition
from engine.profile.stepper import Stepper, Timing
from engine.runner import Graphs
from engine.step_input import StepInput
from twin.cli.errors import one_line
from twin.core.limits import Limits, blocks_for

BESIDE = 0.1  # of the blocks that would fit, left free: for the copy that is measured beside, and the graphs


def points(setup: Setup, blocks_that_fit: int, block_size: int) -> tuple[list[Composition], list[Composition]]:
    """What is measured, shortest contexts first, and what has to be left out, as its cache does not fit."""
    found = [
        Composition("decode", batch, context) for context, batch in product(setup.decode_contexts, setup.decode_batches)
    ]
    fitting = [point for point in found if point.blocks(block_size) <= blocks_that_fit]
    return fitting, [point for point in found if point not in fitting]


def parts(setup: Setup) -> dict[str, Part]:
    return {"decode": measure}


def measure(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    words, notes = fitting_model(setup)
    config = options((*words, f"model.max_model_len={max(setup.decode_contexts)}"), setup)
    loaded = load(config)
    yield from (Note(f"decode: {note}") for note in (*notes, *loaded.notes, f"attention={loaded.attention.name}"))
    block_size = config["cache"]["block_size"]
    fit = loaded.blocks_that_fit(config)[0]
    planned, left_out = points(setup, int(fit * (1 - BESIDE)), block_size)
    if left_out:
        names = ", ".join(f"{point.decodes} x {point.decode_context}" for point in left_out)
        yield Note(f"decode: not measured, as their keys and values do not fit: {names}")
    if not planned:
        raise EngineError("decode: keys and values of no batch fit beside the weights")
    bench = Bench(setup, loaded, limits_for(planned, block_size), config["seed"])
    for number, point in enumerate(planned):
        if deadline.is_over:
            yield Note(f"decode: no time for {len(planned) - number} of {len(planned)} batches")
            return
        yield from bench.rows(point)


def limits_for(planned: list[Composition], block_size: int) -> Limits:
    """A pool for the largest of them."""
    longest, most = max(point.decode_context for point in planned), max(point.decodes for point in planned)
    return Limits(
        num_blocks=max(point.decodes * blocks_for(point.decode_context, block_size) for point in planned),
        block_size=block_size, max_num_seqs=most, max_num_batched_tokens=max(most, block_size), max_model_len=longest,
    )  # fmt: skip


class Counted:
    """Graphs of decode steps, and how many steps they have served: where one cannot be had, the engine does without."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs, self.served = graphs, 0

    def serves(self, step: StepInput) -> bool:
        return self.graphs.serves(step)

    def logits(self, step: StepInput, token_ids: Tensor) -> Tensor:
        self.served += 1
        return self.graphs.logits(step, token_ids)


class Bench:
    """Measures steps with and without CUDA graphs, beside the copy."""

    def __init__(self, setup: Setup, loaded: Loaded, limits: Limits, seed: int) -> None:
        self.setup, self.loaded = setup, loaded
        self.runner = loaded.runner(limits)
        graphs = self.runner.graphs
        if setup.dry_run:
            graphs = DecodeGraphs(self.runner, limits.max_num_seqs, loaded.model.max_len, computed_anew)
        self.graphs = Counted(graphs) if graphs is not None else None
        self.modes: dict[str, Graphs | None] = {"graph": self.graphs} if self.graphs else {}
        self.modes["eager"] = None
        self.stepper = Stepper(self.runner, limits, seed)
        self.copy = DeviceCopy(loaded.device, setup.copy_bytes, timer_of(loaded.device))

    def rows(self, point: Composition) -> Iterator[Row]:
        """A row a mode; one that could not be computed says why."""
        timings: dict[str, list[Timing]] = {name: [] for name in self.modes}
        why: dict[str, str] = {}
        copies: list[float] = []
        for repeat in range(1 + self.setup.repeats):  # the first is warm-up: graphs are recorded, memory is allocated
            copies.append(self.copy.seconds())
            for name in [name for name in self.modes if name not in why]:
                self.runner.graphs = self.modes[name]
                served = self.graphs.served if self.graphs else 0
                try:
                    timing = self.stepper.measure(point)
                except (StepFailure, torch.OutOfMemoryError) as error:
                    why[name] = one_line(f"{type(error).__name__}: {error}")
                    continue
                if name == "graph" and self.graphs and self.graphs.served == served:
                    why[name] = "the step was computed without a graph: no memory for one, perhaps"
                elif repeat:
                    timings[name].append(timing)
        rate = roofline.copy_rate(self.setup.copy_bytes, median(copies[1:]))
        for name in self.modes:
            yield Row("decode", {**self._about(point, rate), "how": name, "why": why.get(name, ""),
                                 **({} if name in why else self._figures(point, rate, timings[name]))})  # fmt: skip

    def _bytes(self, point: Composition) -> tuple[int, int]:
        """Weights, and keys and values, that a step reads."""
        shape, cache = self.loaded.shape, self.runner.cache
        weights = roofline.weight_bytes_read(shape, self.runner.model.dtype.itemsize)
        return weights, roofline.kv_bytes_read(shape, point.decodes, point.decode_context, cache.dtype.itemsize)

    def _about(self, point: Composition, rate: float) -> dict[str, object]:
        weights, kv = self._bytes(point)
        config = self.runner.model.config
        return {
            "model": config.name, "layers": config.layers, "attention": self.runner.attention.name, "batch": point.decodes,
            "context": point.decode_context, "weights_gb": weights / GB, "kv_gb": kv / GB, "copy_gb_s": rate / GB,
            "roofline_ms": (weights + kv) / rate * 1e3,
        }  # fmt: skip

    def _figures(self, point: Composition, rate: float, timings: list[Timing]) -> dict[str, float]:
        needed = sum(self._bytes(point))
        step_s, device_s = median(each.duration_s for each in timings), median(each.device_s for each in timings)
        return {
            "step_ms": step_s * 1e3, "device_ms": device_s * 1e3, "tokens_s": point.decodes / step_s,
            "of_roofline": roofline.share(needed, rate, step_s),
            "device_of_roofline": roofline.share(needed, rate, device_s),
        }  # fmt: skip
