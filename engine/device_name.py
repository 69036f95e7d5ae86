"""Which device a name means."""

from __future__ import annotations

import torch

from engine.errors import EngineError


def device_named(name: str) -> torch.device:
    """The device that `engine.device=` names; it is the current one afterwards, since kernels are launched on that.

    Raises `EngineError` for what is no device, or is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise EngineError(f"engine.device={name}: must be auto, cpu, cuda or cuda:NUMBER")
    if device.type == "cuda":
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise EngineError(f"engine.device={name}: torch finds {count} CUDA devices; take cpu or auto")
        torch.cuda.set_device(device)
    return device
