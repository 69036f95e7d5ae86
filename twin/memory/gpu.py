"""What a data sheet says of a GPU."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twin.memory.shape import ModelShape


@dataclass(frozen=True)
class Gpu:
    """A device. Rates are the data sheet's (decimal, dense); memory is what a program is shown, in GiB."""

    name: str
    memory_gib: float
    bandwidth_gb_s: float  # GB/s of device memory
    bf16_tflops: float  # with accumulation in fp32
    fp32_tflops: float
    fp8_tflops: float | None = None  # None: the device has no fp8 arithmetic
    link_gib_s: float | None = None  # GiB/s to another GPU, one way
    reserve_gib: float = 0.0  # CUDA context, libraries and graphs, as vLLM sets aside

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"gpu {self.name}: {field.name} must be a number, not {value!r}")
            if value < 0 or (value == 0 and field.name != "reserve_gib"):
                raise ValueError(f"gpu {self.name}: {field.name} must be above 0, not {value}")

    def peak_flops(self, model: ModelShape) -> float:
        """FLOP/s at which this GPU multiplies this model's matrices.

        Weights in fp8 are multiplied in fp8 where the device can; 4-bit and 8-bit integers are unpacked first.
        """
        if model.quantization == "fp8" and self.fp8_tflops is not None:
            return self.fp8_tflops * 1e12
        return (self.fp32_tflops if model.dtype == "fp32" else self.bf16_tflops) * 1e12


def gpu_from(options: Mapping[str, Any]) -> Gpu:
    """The GPU from the options of `gpu`."""
    fields = dataclasses.fields(Gpu)
    names = [field.name for field in fields]
    unknown = [name for name in options if name not in names]
    missing = [field.name for field in fields if field.default is dataclasses.MISSING and field.name not in options]
    if unknown or missing:
        problem = f"unknown {', '.join(unknown)}" if unknown else f"missing {', '.join(missing)}"
        raise ValueError(f"gpu: {problem}; there are {', '.join(names)}")
    return Gpu(**options)
