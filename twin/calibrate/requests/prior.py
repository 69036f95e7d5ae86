"""What is known of a step before any log is read: the model's shape and the GPU's data sheet, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from twin.calibrate.requests.log import RequestLog
    from twin.memory import Gpu, ModelShape

GIB = 2**30
REACHED = 0.825  # of the data sheet's arithmetic and bandwidth
LINK_REACHED = 0.5  # of the link between GPUs, in all-reduces
HOST_S, MIXED_S, MIXED_SD_S = 1.5e-3, 6e-3, 10e-3  # beside the kernels: every step, and one with prefill (eager kernels)
ALL_REDUCE_S = 1e-5  # of an all-reduce beside its bytes
DECODE_SHARE = 0.6  # of a token's arithmetic that shows beside the weights' way from memory, in a batch of decodes
# Relative standard deviations.
CONSTANT_SD, PREFILL_SD, DECODE_SD, CONTEXT_SD, ATTENTION_SD, SCALE_SD = 0.1, 0.4, 1.0, 0.25, 1.0, 0.05


class Guess(NamedTuple):
    """A coefficient's mean and standard deviation."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Prior:
    """Means and standard deviations of the coefficients, in the order of a basis' terms; sd 0 holds one fixed."""

    mean: np.ndarray
    sd: np.ndarray
    source: str

    @classmethod
    def of(cls, guesses: dict[str, Guess], terms: tuple[str, ...], free: tuple[str, ...], source: str) -> Prior:
        """Of the terms, only those in `free` are fitted."""
        sd = [guesses[name].sd if name in free else 0.0 for name in terms]
        return cls(np.array([guesses[name].mean for name in terms]), np.array(sd), source)

    @property
    def free(self) -> np.ndarray:
        return self.sd > 0

    def deviations(self, theta: np.ndarray) -> np.ndarray:
        """How many standard deviations each free coefficient lies from its mean."""
        return (theta - self.mean)[self.free] / self.sd[self.free]


class Sheet(NamedTuple):
    """Seconds that the data sheet gives, of all GPUs together."""

    weights_s: float
    per_token_s: float  # arithmetic
    per_context_token_s: float
    per_pair_s: float
    per_token_sent_s: float  # all-reduces
    all_reduces_s: float  # ... of a step, beside their bytes


def sheet_of(model: ModelShape, gpu: Gpu, gpus: int) -> Sheet:
    """Weights read and keys and values read by the bandwidth, two operations a weight and token by the arithmetic."""
    bandwidth, flops = gpu.bandwidth_gb_s * 1e9 * REACHED * gpus, gpu.peak_flops(model) * REACHED * gpus
    embedding = 0 if model.tied else model.vocab * model.hidden * model.dtype_bytes
    sent_s = all_reduces_s = 0.0
    if gpus > 1:
        number = 2 * model.layers
        link = (gpu.link_gib_s or 16.0) * GIB * LINK_REACHED
        sent_s = number * 2 * (gpus - 1) / gpus * model.hidden * model.dtype_bytes / link
        all_reduces_s = number * ALL_REDUCE_S
    return Sheet(
        (model.total_weight_bytes - embedding) / bandwidth,
        2 * model.layer_matrix_parameters / flops,
        model.kv_bytes_per_token / bandwidth,
        4 * model.layers * model.heads * model.head_dim / flops,
        sent_s,
        all_reduces_s,
    )


def from_sheet(model: ModelShape, gpu: Gpu, gpus: int) -> dict[str, Guess]:
    """For a step as a sum of terms."""
    sheet = sheet_of(model, gpu, gpus)
    constant = sheet.weights_s + HOST_S + sheet.all_reduces_s
    prefill = sheet.per_token_s + sheet.per_token_sent_s
    decode = DECODE_SHARE * sheet.per_token_s + sheet.per_token_sent_s
    return {
        "constant": Guess(constant, CONSTANT_SD * constant),
        "mixed": Guess(MIXED_S + 2 * sheet.all_reduces_s, MIXED_SD_S + 2 * sheet.all_reduces_s),
        "prefill": Guess(prefill, PREFILL_SD * prefill),
        "decode": Guess(decode, DECODE_SD * decode),
        "context": Guess(sheet.per_context_token_s, CONTEXT_SD * sheet.per_context_token_s),
        "attention": Guess(sheet.per_pair_s, ATTENTION_SD * sheet.per_pair_s),
    }


def beside_kernels(model: ModelShape, gpu: Gpu, gpus: int) -> dict[str, Guess]:
    """For kernels that were measured, and what they leave out."""
    sheet = sheet_of(model, gpu, gpus)
    some = 0.05 * sheet.per_token_s  # of a token that the kernels do not hold
    return {
        "scale": Guess(1.0, SCALE_SD),
        "constant": Guess(HOST_S + sheet.all_reduces_s, 1e-3 + sheet.all_reduces_s),
        "mixed": Guess(MIXED_S + 2 * sheet.all_reduces_s, MIXED_SD_S + 2 * sheet.all_reduces_s),
        "prefill": Guess(sheet.per_token_sent_s, sheet.per_token_sent_s + some),
        "decode": Guess(sheet.per_token_sent_s, sheet.per_token_sent_s + some),
    }


def from_log(log: RequestLog) -> dict[str, Guess]:
    """Where nothing is known of the machine: orders of magnitude from the log itself, trusted little.

    A token's time is taken for one half a constant and an eighth each batch and context; a prompt's token costs what the
    fastest tenth of the first tokens took.
    """
    stamped = log.stamped
    token_s = float(np.nanmedian(log.tpot_s[stamped]))
    span_s = np.nanmax(log.finish_s) - np.nanmin(log.first_token_s)
    batch = max(1.0, float(np.nansum(log.decode_s) / span_s))
    context = batch * float(np.mean(log.prompt_tokens + log.output_tokens / 2))
    prefill = float(np.nanquantile(log.ttft_s[stamped] / log.prompt_tokens[stamped], 0.1)) / 2
    pair = 0.05 * prefill / float(np.mean(log.prompt_tokens))
    means = (token_s / 2, token_s / 4, prefill, token_s / 8 / batch, token_s / 8 / context, pair)
    names = ("constant", "mixed", "prefill", "decode", "context", "attention")
    return {name: Guess(mean, mean) for name, mean in zip(names, means, strict=True)}
