"""Is a profile of the model and the GPU that was asked for?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twin.calibrate.steps import About

if TYPE_CHECKING:
    from twin.memory import Gpu, ModelShape

DIMENSIONS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")


def differences(about: About, model: ModelShape | None, gpu: Gpu | None, gpus: int | None) -> list[str]:
    """In words, what of the file's own account is not what was asked for; None was not asked for."""
    found = []
    if model is not None:
        found += _of_model(about, model)
    if gpu is not None and about.gpu is not None and not names_gpu(about.gpu, gpu.name):
        found.append(f"gpu {about.gpu}, not {gpu.name}")
    if gpus is not None and about.gpus is not None and about.gpus != gpus:
        found.append(f"tensor_parallel_size {about.gpus}, not {gpus}")
    return found


def _of_model(about: About, model: ModelShape) -> list[str]:
    if about.shape:
        other = [
            f"{name} {about.shape[name]}, not {getattr(model, name)}"
            for name in DIMENSIONS
            if name in about.shape and about.shape[name] != getattr(model, name)
        ]
        return [f"model {about.model} ({'; '.join(other)} of {model.name})"] if other else []
    if about.model is not None and squeezed(model.name) not in squeezed(about.model):
        return [f"model {about.model}, not {model.name}"]
    return []


def names_gpu(device: str, name: str) -> bool:
    """Whether what a maker calls a device ("NVIDIA A100-SXM4-80GB") is what the project calls so (a100-80g)."""
    return all(part in squeezed(device) for part in name.lower().split("-"))


def squeezed(name: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def conflicts(abouts: list[About]) -> list[str]:
    """In words, how the accounts of several files differ from each other."""
    found = []
    for field in ("model", "gpu", "gpus"):
        values = list(dict.fromkeys(str(value) for about in abouts if (value := getattr(about, field)) is not None))
        if len(values) > 1:
            found.append(f"{field} {' and '.join(values)}")
    return found
