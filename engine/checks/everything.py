"""All checks of a device, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from engine.checks.attention import Layer, check_attention
from engine.checks.model import TOLERANCE as MODEL_DTYPES
from engine.checks.model import check_model
from engine.checks.outcome import Measured, Outcome, judged
from engine.checks.sampling import check_sampling
from engine.checks.transfers import DTYPES, check_transfers
from engine.model.config import ARCHITECTURES
from engine.profile.environment import DTYPE_NAMES
from engine.runner import ModelRunner

MakeRunner = Callable[[torch.device, str, torch.dtype], ModelRunner]  # of a device, an architecture, a dtype


def check_device(device: torch.device, layer: Layer, runner: MakeRunner) -> Iterator[Outcome]:
    """`layer`: what the model in question asks of attention. `runner` makes the tiny models as the engine makes its own."""
    name = str(device)
    yield from check_attention(device, layer)
    for dtype in DTYPES:
        about = f"out, in, copies, {DTYPE_NAMES[dtype]}"
        yield judged(name, "block transfers", about, partial(check_transfers, device, dtype))
    for architecture in ARCHITECTURES:
        for dtype in MODEL_DTYPES:
            if device.type == "cpu" and dtype == torch.float16:
                continue  # nobody computes in it there
            yield judged(
                name, f"model, {architecture}", DTYPE_NAMES[dtype], partial(_model, runner, device, architecture, dtype)
            )
    yield judged(name, "choice of tokens", "same numbers, same tokens", partial(check_sampling, device))


def _model(runner: MakeRunner, device: torch.device, architecture: str, dtype: torch.dtype) -> Measured:
    return check_model(runner(device, architecture, dtype))
