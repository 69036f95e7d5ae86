"""The C++ operations of a layer against the same in fp64, and no further from it than torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention.cpu import library
from engine.model.cpu_ops import CpuOps
from engine.model.ops import TorchOps

pytestmark = pytest.mark.skipif(library.why_not() is not None, reason=f"{library.why_not()}")

EPSILON = {torch.float32: 2**-22, torch.bfloat16: 2**-8, torch.float16: 2**-10}  # a rounding of the result, about
each_dtype = pytest.mark.parametrize("dtype", EPSILON, ids=str)
each_width = pytest.mark.parametrize("width", [1, 16, 30, 64, 576, 1000])


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(got: Tensor, want: Tensor) -> None:
    epsilon = EPSILON[got.dtype]
    torch.testing.assert_close(got.double(), want, atol=4 * epsilon, rtol=epsilon)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


@each_dtype
@each_width
def test_rms_norm(dtype: torch.dtype, width: int):
    x, weight = random(90, width, dtype=dtype), random(width, dtype=dtype, seed=1)
    close(CpuOps().rms_norm(x, weight, 1e-5), norm(x, weight, 1e-5))


@each_dtype
def test_rms_norm_of_heads_within_wider_rows(dtype: torch.dtype):
    heads = random(5, 9, 24, dtype=dtype)[:, 2:6]
    weight = random(24, dtype=dtype, seed=1)
    close(CpuOps().rms_norm(heads, weight, 1e-6), norm(heads, weight, 1e-6))


@each_dtype
@each_width
def test_add_rms_norm_sums_rounds_and_normalises(dtype: torch.dtype, width: int):
    x, residual = (random(90, width, dtype=dtype, seed=seed) for seed in (0, 1))
    weight = random(width, dtype=dtype, seed=2)
    total = x + residual
    got, new = CpuOps().add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(new, total)
    close(got, norm(total, weight, 1e-5))


@each_dtype
@pytest.mark.parametrize("dim", [2, 16, 40, 64, 128])
def test_rope_turns_the_halves_of_views(dtype: torch.dtype, dim: int):
    qkv = random(300, 5, dim, dtype=dtype)
    positions = torch.randint(0, 1000, (300,), generator=torch.Generator().manual_seed(2))
    angles = torch.outer(torch.arange(1000.0), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
    cos, sin = angles.cos(), angles.sin()

    def turned(x: Tensor) -> Tensor:  # as complex numbers: first half the real parts
        first, second = x.double().chunk(2, -1)
        number = torch.complex(first, second) * torch.complex(cos.double(), sin.double())[positions][:, None]
        return torch.cat([number.real, number.imag], -1)

    want_q, want_k, v = turned(qkv[:, :3]), turned(qkv[:, 3:4]), qkv[:, 4:].clone()
    q, k = CpuOps().rope(qkv[:, :3], qkv[:, 3:4], cos, sin, positions)
    close(q, want_q)
    close(k, want_k)
    assert torch.equal(qkv[:, 4:], v)


@each_dtype
@each_width
def test_silu_mul(dtype: torch.dtype, width: int):
    gate_up = 5 * random(90, 2 * width, dtype=dtype)
    gate, up = gate_up.double().chunk(2, -1)
    got, want = CpuOps().silu_mul(gate_up), F.silu(gate) * up
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=2 * EPSILON[dtype])


def test_silu_mul_far_out():
    gate = torch.tensor([[-1e30, -1000.0, -87.0, -80.0, 0.0, 80.0, 1000.0, 1e30, 1.0]])
    got = CpuOps().silu_mul(torch.cat([gate, torch.ones_like(gate)], 1))
    torch.testing.assert_close(got, F.silu(gate), atol=1e-30, rtol=1e-6)


def test_nan_stays_nan():
    x = torch.ones(2, 32)
    x[0, 3] = float("nan")
    ops = CpuOps()
    assert ops.rms_norm(x, torch.ones(32), 1e-5).isnan().any(1).tolist() == [True, False]
    assert ops.silu_mul(x).isnan().any(1).tolist() == [True, False]


@each_dtype
def test_no_further_from_the_truth_than_torch(dtype: torch.dtype):
    x, residual = (random(64, 576, dtype=dtype, seed=seed) for seed in (0, 1))
    weight = random(576, dtype=dtype, seed=2)
    for name, want in (("rms_norm", norm(x, weight, 1e-5)), ("add_rms_norm", norm(x + residual, weight, 1e-5))):
        errors = []
        for ops in (CpuOps(), TorchOps()):
            if name == "rms_norm":
                got = ops.rms_norm(x, weight, 1e-5)
            else:
                got = ops.add_rms_norm(x, residual.clone(), weight, 1e-5)[0]
            errors.append((got.double() - want).square().mean().sqrt())
        assert errors[0] <= errors[1] * 1.1
