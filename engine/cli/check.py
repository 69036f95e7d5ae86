"""`engine check`: kernels and model against references, on the devices of this machine."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.cli.main import ROOT
from engine.cli.status import status_line
from engine.cli.words import torch_or_explain, users_mistakes
from twin.cli import streams
from twin.cli.compose import compose
from twin.cli.errors import naming, one_line
from twin.cli.helptext import help_text, wants_help
from twin.cli.options import check_options
from twin.core.limits import Limits

if TYPE_CHECKING:
    import torch

    from engine.checks.attention import Layer
    from engine.checks.outcome import Outcome
    from engine.runner import ModelRunner

DOES = """Checks what the engine computes on this machine: every attention back end against the definition of attention, and
in the shape of model=NAME; blocks that are swapped and copied; tiny models on the paged cache against dense ones; the choice
of tokens. Without engine.device on the CPU, and on a GPU where there is one (docs/engine_check.md)."""
EXAMPLE = "python -m engine check model=llama3.1-8b"
SECTIONS = ("model", "cache", "engine", "attention")
PASSED, FAILED = 0, 1
STYLES = {"passed": "green", "failed": "bold red", "not here": "yellow"}


def main(words: list[str]) -> int:
    """Checks each device; returns the exit status."""
    if wants_help(words):
        print(help_text("check", DOES, EXAMPLE, words, SECTIONS, program="engine", root=ROOT), end="")
        return PASSED
    torch_or_explain()
    from engine.checks.everything import check_device
    from engine.options import check_engine_options
    from engine.profile.environment import device_name

    config = compose(words, root=ROOT).values
    check_options(config)
    check_engine_options(config)
    failed = []
    with users_mistakes():
        found = devices(config["engine"]["device"])
    for device in found:
        print(f"{device}: {device_name(device)}", flush=True)
        outcomes = []
        with users_mistakes(), status_line() as tell:
            for outcome in check_device(device, layer(config, device), maker(config)):
                outcomes.append(outcome)
                tell(f"{outcome.what} {outcome.about}: {outcome.verdict}")
        show(outcomes)
        failed += [outcome for outcome in outcomes if outcome.verdict == "failed"]
    for outcome in failed:
        streams.complain(
            f"engine check: failed on {outcome.device}: {outcome.what}, {outcome.about}: {one_line(outcome.why)}"
        )
    return FAILED if failed else PASSED


def devices(name: str) -> list[torch.device]:
    """The one named; for auto the CPU, and the GPU where there is one."""
    import torch

    from engine.device_name import device_named

    if name == "auto":
        return [torch.device("cpu"), *([device_named("cuda")] if torch.cuda.is_available() else [])]
    return [device_named(name)]


def layer(config: dict[str, Any], device: torch.device) -> Layer:
    """What the model of the options asks of attention on a device."""
    from engine.build import TORCH_DTYPES
    from engine.checks.attention import Layer
    from twin.memory import model_shape

    with naming("model"):
        shape = model_shape(config["model"])
    dtype, kv_dtype = config["engine"]["dtype"], config["cache"]["kv_cache_dtype"]
    if dtype == "auto":
        dtype = "fp32" if device.type == "cpu" else shape.dtype
    kv_dtype = dtype if kv_dtype == "auto" else kv_dtype
    return Layer(
        shape.name, shape.heads, shape.kv_heads, shape.head_dim, config["cache"]["block_size"], TORCH_DTYPES[dtype],
        TORCH_DTYPES[kv_dtype],
    )  # fmt: skip


def maker(config: dict[str, Any]) -> Callable[[torch.device, str, torch.dtype], ModelRunner]:
    """Makes tiny models by the engine's own way from options to model, so what is checked is what runs."""
    from engine.build import load
    from engine.checks.model import BLOCK_SIZE, NUM_BLOCKS, SEED, tiny_model
    from engine.profile.environment import DTYPE_NAMES

    def make(device: torch.device, architecture: str, dtype: torch.dtype) -> ModelRunner:
        tiny = copy.deepcopy(config)
        tiny["model"], tiny["seed"] = tiny_model(architecture), SEED
        tiny["engine"] |= {"device": str(device), "weights": "random", "dtype": DTYPE_NAMES[dtype]}
        tiny["cache"]["kv_cache_dtype"] = "auto"
        return load(tiny).runner(Limits(NUM_BLOCKS, block_size=BLOCK_SIZE))

    return make


def show(outcomes: list[Outcome]) -> None:
    """A line each, with what could not be had and why."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for heading in ("check", "of", "error", "allowed", "verdict", "seconds"):
        table.add_column(heading, justify="right" if heading in ("error", "allowed", "seconds") else "left", overflow="fold")
    for outcome in outcomes:
        numbers = ("" if number is None else f"{number:.1e}" for number in outcome.measured)
        verdict = Text(outcome.verdict, style=STYLES[outcome.verdict])
        table.add_row(outcome.what, outcome.about, *numbers, verdict, f"{outcome.seconds:.2f}")
    Console(highlight=False).print(table)
    for outcome in outcomes:
        if outcome.verdict == "not here":
            print(f"not here: {outcome.why}" if outcome.what in outcome.why else f"not here: {outcome.what}: {outcome.why}")
