"""What the engine computes on the device against references (engine/checks), and CUDA graphs against eager steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Note, Part, Row
from bench.on_gpu.options import options
from bench.on_gpu.setup import Setup
from bench.on_gpu.steps import decode_step
from bench.on_gpu.timing import computed_anew
from engine.build import load
from engine.checks.attention import backend_for, errors_of, groups
from engine.checks.case import Wrong
from engine.checks.everything import MakeRunner
from engine.checks.model import TOLERANCE, check_model, tiny_model
from engine.checks.outcome import Measured, Outcome, judged
from engine.checks.sampling import check_sampling
from engine.checks.transfers import DTYPES as MOVED_DTYPES
from engine.checks.transfers import check_transfers
from engine.cli.check import layer, maker
from engine.decode_graphs import DecodeGraphs
from engine.model.config import ARCHITECTURES
from engine.profile.environment import DTYPE_NAMES
from engine.profile.stepper import fill_at_random
from twin.cli.errors import one_line
from twin.core.limits import Limits

ALL_GROUPS = 6  # of engine.checks.attention
GRAPH_DTYPES = (torch.float32, torch.bfloat16)
SEATS, GRAPH_BLOCKS, BLOCK_SIZE, STEPS = 8, 72, 16, 4
CONTEXTS = (1, 15, 16, 47, 60)  # of a batch that is padded; each step adds one, so that some cross a block's edge


def parts(setup: Setup) -> dict[str, Part]:
    """By back end, those of the bandwidth first; Triton's in several processes, as it compiles in each."""
    found: dict[str, Part] = {}
    for name in setup.backends:
        count = setup.check_groups or ALL_GROUPS
        size = 1 if name == "triton" else count
        for first in range(0, count, size):
            found[f"attention={name}, groups {first + 1}-{first + size}"] = partial(attention, name, first, first + size)
    found["blocks, models, tokens"] = partial(others)
    for name in setup.recordable:
        found[f"graphs, attention={name}"] = partial(graphs, name)
    return found


def attention(name: str, first: int, end: int, setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Some groups of checks of one back end."""
    device = torch.device(setup.device)
    backend_for(name, device)  # EngineError where it cannot be had
    for number, group in enumerate(groups(device, layer(options(setup.model, setup), device))[first:end]):
        if deadline.is_over:
            yield Note(f"attention={name}: no time for the checks from {group.about!r} on ({first + number + 1})")
            return
        about = f"{group.about} ({len(group.cases)} steps)"
        yield _row(judged(setup.device, f"attention={name}", about, partial(errors_of, name, device, group)))


def others(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """The checks of `engine check` beside those of attention."""
    device, make = torch.device(setup.device), maker(options(setup.model, setup))
    found: list[tuple[str, str, Callable[[], Measured]]] = [
        ("choice of tokens", "same numbers, same tokens", partial(check_sampling, device))
    ]
    for dtype in MOVED_DTYPES:
        found.append(("block transfers", DTYPE_NAMES[dtype], partial(check_transfers, device, dtype)))
    for architecture in ARCHITECTURES:
        for dtype in GRAPH_DTYPES:
            check = partial(_model, make, device, architecture, dtype)
            found.append((f"model, {architecture}", DTYPE_NAMES[dtype], check))
    yield from _checked(found, setup, deadline)


def _model(make: MakeRunner, device: torch.device, architecture: str, dtype: torch.dtype) -> Measured:
    return check_model(make(device, architecture, dtype))


def graphs(name: str, setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Decode steps replayed from CUDA graphs, with one back end."""
    cases = [(architecture, 64, dtype) for architecture in ("llama", "qwen3") for dtype in GRAPH_DTYPES]
    cases.append(("llama", 128, torch.bfloat16))
    found: list[tuple[str, str, Callable[[], Measured]]] = []
    for architecture, head_dim, dtype in cases:
        about = f"{architecture}, heads of {head_dim}, {DTYPE_NAMES[dtype]}"
        found.append(
            (f"graphs, attention={name}", about, partial(graphs_as_eager, name, architecture, head_dim, dtype, setup))
        )
    yield from _checked(found, setup, deadline)


def graphs_as_eager(name: str, architecture: str, head_dim: int, dtype: torch.dtype, setup: Setup) -> Measured:
    """Logits of padded steps on the graphs' standing memory against the same steps launched one by one. Raises `Wrong`.

    The tiny model has random weights; contexts grow over the edges of blocks, and one graph serves all steps.
    """
    config = options(setup.model, setup)
    config["model"] = tiny_model(architecture) | {"head_dim": head_dim}
    config["engine"] |= {"weights": "random", "dtype": DTYPE_NAMES[dtype]}
    config["attention"], config["cache"]["kv_cache_dtype"] = name, "auto"
    loaded = load(config)
    runner = loaded.runner(Limits(GRAPH_BLOCKS, block_size=BLOCK_SIZE, max_num_seqs=SEATS))
    fill_at_random(runner.cache, seed=0)
    recorded = runner.graphs
    if setup.dry_run:
        recorded = DecodeGraphs(runner, SEATS, loaded.model.max_len, computed_anew)
    assert isinstance(recorded, DecodeGraphs), f"attention={name} can be recorded"
    worst, allowed = 0.0, TOLERANCE[dtype]
    for number in range(STEPS):
        step = decode_step(runner, [context + number for context in CONTEXTS])
        runner.graphs = None
        eager = runner.logits(step)
        runner.graphs = recorded
        replayed = runner.logits(step)
        error = float(((replayed - eager).abs() / (1 + eager.abs())).max())
        if not error <= allowed:  # NaN is not
            raise Wrong(f"step {number}: logits of the graph are off by {error:.3g} of the eager ones, {allowed:g} allowed")
        worst = max(worst, error)
    if len(recorded.graphs) != 1:
        raise Wrong(f"{len(recorded.graphs)} graphs were recorded for steps that one can serve")
    return Measured(worst, allowed)


def _checked(found: list[tuple[str, str, Callable[[], Measured]]], setup: Setup, deadline: Deadline) -> Iterator[Item]:
    for number, (what, about, check) in enumerate(found):
        if deadline.is_over:
            yield Note(f"{what}: no time for {len(found) - number} checks from {about!r} on")
            return
        yield _row(judged(setup.device, what, about, check))


def _row(outcome: Outcome) -> Row:
    return Row("checks", {
        "check": outcome.what, "of": outcome.about, "verdict": outcome.verdict, "error": outcome.measured.error,
        "allowed": outcome.measured.tolerance, "seconds": outcome.seconds, "why": one_line(outcome.why),
    })  # fmt: skip
