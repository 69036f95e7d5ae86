"""The matrix product of a layer, laid out for its device once at load."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

# oneDNN lays a matrix out for about so many rows; the layout serves 4 to 16 rows best and others no worse than any other.
PACKED_FOR_ROWS = 16
# Below four rows oneDNN takes a path that reads an fp32 matrix more slowly than four rows do (measured: 36 ms against 27 ms
# for all matrices of SmolLM2 on one core), so that few rows are doubled up to four.
REPEATS = {1: 4, 2: 2, 3: 2}


class MatrixProduct(Protocol):
    """x [rows, inputs] -> x W^T + b [rows, outputs], in the dtype of x; rows may be none."""

    def __call__(self, x: Tensor) -> Tensor: ...


class LinearFactory(Protocol):
    """Takes W [outputs, inputs] and b [outputs] or None, and keeps them as it likes."""

    def __call__(self, weight: Tensor, bias: Tensor | None = None) -> MatrixProduct: ...


class Linear:
    """`MatrixProduct` by torch.

    On a CPU that oneDNN serves for this dtype the matrix is kept in oneDNN's own layout, and the plain one is let go.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.bias = bias
        self.packed = _is_packed(weight)
        self.repeated = self.packed and weight.dtype == torch.float32
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        else:
            self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        if not self.packed:
            return F.linear(x, self.weight, self.bias)
        rows = x.shape[0]
        if self.repeated and rows in REPEATS:
            return self._packed(torch.cat((x,) * REPEATS[rows]))[:rows]
        return self._packed(x)

    def _packed(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


def _is_packed(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if weight.dtype == torch.float16:
        return torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return weight.dtype == torch.float32
