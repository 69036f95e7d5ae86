"""Where the kernels cannot run, the user is told what would be right."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from engine.attention.triton.backend import INTERPRETED, TritonAttention  # noqa: E402
from engine.attention.triton.tiles import Machine  # noqa: E402
from engine.errors import EngineError  # noqa: E402

compiled_only = pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET is set: any device will do")


@compiled_only
def test_a_cpu_has_the_interpreter_alone() -> None:
    with pytest.raises(
        EngineError, match="needs a CUDA device, not cpu .*TRITON_INTERPRET=1.* for tests.*use attention=torch"
    ):
        TritonAttention(torch.device("cpu"))


def pretend(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=108))


@compiled_only
def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, (7, 5))
    with pytest.raises(EngineError, match=r"compute capability 8\.0 or later, and cuda:0 has 7\.5: use attention=torch"):
        TritonAttention(torch.device("cuda:0"))


@compiled_only
def test_sizes_are_chosen_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, (8, 6))
    assert TritonAttention(torch.device("cuda:0")).machine == Machine(multiprocessors=108, capability=86)
    assert not Machine(108, 86).converts_fp8 and Machine(108, 89).converts_fp8


@compiled_only
def test_heads_that_the_kernels_do_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, (9, 0))
    device = torch.device("cuda")
    for head_dim in (8, 72, 256):
        TritonAttention(device, head_dim)
    for head_dim in (0, 4, 60, 264):
        with pytest.raises(EngineError, match=f"multiples of 8 up to 256, not {head_dim}: use attention=torch"):
            TritonAttention(device, head_dim)


def test_without_triton() -> None:
    """In a process where `import triton` fails."""
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "from engine.errors import EngineError\n"
        "try:\n    import engine.attention.triton.backend\n"
        "except EngineError as error: print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert answer.stdout.startswith("attention=triton needs the package triton, which cannot be imported here")
