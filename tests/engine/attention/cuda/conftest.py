"""The kernels under test: the source built by g++ and emulated on the host, and on a GPU where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from engine.attention.cuda.backend import CudaAttention
from engine.attention.cuda.build import build_for_gpu
from engine.attention.cuda.library import Kernels
from engine.attention.reference import ReferenceAttention
from tests.engine.attention.cuda.emulated import emulated_library


@dataclass
class Platform:
    """Where kernels run."""

    device: torch.device
    kernels: Callable[[int, torch.dtype], Kernels]  # of a head dim and a dtype of the cache

    def backend(self, head_dim: int, cache_dtype: torch.dtype) -> CudaAttention:
        """With so few multiprocessors that most batches have splits = 1, and with the definition for prefills."""
        return CudaAttention(self.kernels(head_dim, cache_dtype), 4, ReferenceAttention())


@pytest.fixture(scope="session", params=["emulated", "device"])
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    on_device = request.param == "device"
    if on_device and not torch.cuda.is_available():
        pytest.skip("no GPU on this machine")
    if not on_device and shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    folder = tmp_path_factory.mktemp("libraries")
    loaded: dict[tuple[int, torch.dtype], Kernels] = {}

    def kernels(head_dim: int, cache_dtype: torch.dtype) -> Kernels:
        shape = head_dim, cache_dtype
        if shape not in loaded:
            if on_device:
                library = build_for_gpu(*shape, torch.cuda.get_device_capability())
            else:
                library = emulated_library(folder, *shape)
            loaded[shape] = Kernels(library, *shape)
        return loaded[shape]

    return Platform(torch.device("cuda" if on_device else "cpu"), kernels)
