"""Models that all truths are told of, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.attention.base import AttentionBackend
from engine.attention.cpu.backend import CpuAttention
from engine.attention.torch_backend import TorchAttention
from tests.engine.truth.models import ARCHITECTURES, Pair, pair


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices of these sizes are slower in two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    return {name: pair(tmp_path_factory.mktemp(name), name) for name in ARCHITECTURES}


@pytest.fixture(params=ARCHITECTURES)
def any_pair(request: pytest.FixtureRequest, pairs: dict[str, Pair]) -> Pair:
    return pairs[request.param]


@pytest.fixture(scope="session")
def llama(pairs: dict[str, Pair]) -> Pair:
    return pairs["llama"]


@pytest.fixture(params=["torch", "cpu"])
def attention(request: pytest.FixtureRequest) -> AttentionBackend:
    if request.param == "torch":
        return TorchAttention()
    if why := CpuAttention.why_not():
        pytest.skip(why)
    return CpuAttention()
