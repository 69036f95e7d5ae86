"""The matrix product of a layer in C++ on the CPU (engine/attention/cpu/linear.cpp)."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.cpu import library
from engine.model.linear import Linear, MatrixProduct

PANEL = 48  # outputs that linear.cpp lays out together
WORD = 4  # bytes: one fp32, two bf16


def cpu_linear(weight: Tensor, bias: Tensor | None = None) -> MatrixProduct:
    """The fastest product that a CPU can have of this weight: in C++, or by torch. For `load_model(linear=...)`."""
    return CpuLinear(weight, bias) if CpuLinear.can(weight) else Linear(weight, bias)


class CpuLinear:
    """`MatrixProduct` in fp32 or bf16; W is kept packed, and only so.

    A row's result is the same to the bit whatever rows stand beside it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        assert self.can(weight)
        functions = library.library()
        self._linear = functions.twin_linear_f32 if weight.dtype == torch.float32 else functions.twin_linear_bf16
        self.outputs, self.inputs = weight.shape
        self.dtype, self.bias = weight.dtype, None if bias is None else bias.contiguous()
        self._words = self.inputs * weight.itemsize // WORD
        self._packed = torch.empty(-(-self.outputs // PANEL), self._words, PANEL, dtype=torch.int32)
        functions.twin_pack(
            weight.contiguous().data_ptr(), self._packed.data_ptr(), self.outputs, self._words, torch.get_num_threads()
        )
        self._fixed = self._packed.data_ptr(), None if self.bias is None else self.bias.data_ptr()

    @staticmethod
    def can(weight: Tensor) -> bool:
        """Whether this weight can be used: on a CPU with the library, fp32 or bf16, of whole words."""
        return (
            weight.device.type == "cpu"
            and weight.dtype in (torch.float32, torch.bfloat16)
            and weight.shape[1] * weight.itemsize % WORD == 0
            and library.why_not() is None
        )

    def __call__(self, x: Tensor) -> Tensor:
        (rows, inputs), (stride, step), size = x.shape, x.stride(), self.dtype.itemsize
        assert inputs == self.inputs and x.dtype == self.dtype
        if step != 1 or stride * size % WORD:
            x, stride = x.contiguous(), inputs
        out = torch.empty(rows, self.outputs, dtype=self.dtype)
        self._linear(
            x.data_ptr(), *self._fixed, out.data_ptr(), rows, self.outputs, self._words, stride * size // WORD,
            torch.get_num_threads(),
        )  # fmt: skip
        return out
