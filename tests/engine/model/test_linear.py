"""The matrix product in the device's own layout is the matrix product."""

import pytest
import torch

from engine.model.linear import Linear


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("rows", (0, 1, 2, 3, 4, 5, 16, 33))
def test_any_number_of_rows(rows, bias, dtype, tolerance):
    random = torch.Generator().manual_seed(rows)
    x, weight, offset = (torch.randn(shape, generator=random).to(dtype) for shape in ((rows, 48), (70, 48), (70,)))
    wanted = x.double() @ weight.double().T + (offset.double() if bias else 0)
    found = Linear(weight, offset if bias else None)(x)
    assert (found.shape, found.dtype) == ((rows, 70), dtype)
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=10 * tolerance)
