"""The packed matrix product against the same in fp64."""

import pytest
import torch
from torch import Tensor

from engine.attention.cpu import library
from engine.model.cpu_linear import CpuLinear, cpu_linear
from engine.model.linear import Linear

pytestmark = pytest.mark.skipif(library.why_not() is not None, reason=f"{library.why_not()}")

# Of a sum of n products: fp32 sums are off by some n * 2^-24; bf16 results by 2^-9 of themselves beside.
TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (1e-3, 2**-8)}
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@each_dtype
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("outputs, inputs", [(1, 2), (47, 16), (48, 576), (49, 30), (100, 64), (144, 22)])
def test_the_product(dtype: torch.dtype, outputs: int, inputs: int, threads: int):
    w, b = random(outputs, inputs, dtype=dtype, seed=1), random(outputs, dtype=dtype)
    atol, rtol = TOLERANCE[dtype]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for rows in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 100):
        x = random(rows, inputs, dtype=dtype)
        want = x.double() @ w.double().T
        for bias in (None, b):
            expected = want if bias is None else want + b.double()
            torch.testing.assert_close(CpuLinear(w, bias)(x).double(), expected, atol=atol * inputs**0.5, rtol=rtol)
    torch.set_num_threads(before)


@each_dtype
def test_a_row_is_the_same_to_the_bit_in_any_batch(dtype: torch.dtype):
    linear = CpuLinear(random(100, 576, dtype=dtype))
    x = random(40, 576, dtype=dtype, seed=1)
    whole = linear(x)
    for start, end in ((0, 1), (3, 5), (7, 14), (8, 40), (39, 40)):
        assert torch.equal(linear(x[start:end]), whole[start:end])


@each_dtype
def test_rows_may_lie_apart(dtype: torch.dtype):
    linear, wide = CpuLinear(random(50, 30, dtype=dtype)), random(9, 37, dtype=dtype, seed=1)
    for x in (wide[:, 3:33], wide.T[:30].T, wide[::2, :30]):
        assert torch.equal(linear(x), linear(x.contiguous()))


def test_what_it_cannot_do_it_says():
    assert CpuLinear.can(torch.zeros(3, 7))
    assert CpuLinear.can(torch.zeros(3, 8, dtype=torch.bfloat16))
    assert not CpuLinear.can(torch.zeros(3, 7, dtype=torch.bfloat16))
    assert not CpuLinear.can(torch.zeros(3, 8, dtype=torch.float16))
    assert not CpuLinear.can(torch.zeros(3, 8, device="meta"))


def test_torch_computes_what_it_cannot_do():
    assert isinstance(cpu_linear(torch.ones(3, 8)), CpuLinear)
    assert isinstance(cpu_linear(torch.ones(3, 8, dtype=torch.float16)), Linear)
    assert cpu_linear(torch.ones(3, 7, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16))(
        torch.ones(1, 7, dtype=torch.bfloat16)
    ).tolist() == [[8, 8, 8]]


def test_nan_stays_in_its_row():
    x = torch.ones(20, 64)
    x[11, 5] = float("nan")
    assert CpuLinear(torch.ones(60, 64))(x).isnan().any(1).nonzero().tolist() == [[11]]
