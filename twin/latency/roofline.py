"""Step time from the model's shape and the GPU's data sheet."""

import math
from typing import TYPE_CHECKING

from twin.core.batch import Features
from twin.latency.parameters import non_negative, positive
from twin.latency.piecewise import PiecewiseLatency, Segment

if TYPE_CHECKING:
    from twin.memory import Gpu, ModelShape

GIB = 2**30


class RooflineLatency(PiecewiseLatency):
    """Each part of a step takes the longer of its arithmetic and its traffic (Williams et al., Roofline, CACM 2009).

    With T tokens, n sequences, C context tokens of the decodes, A query-key pairs of the prefill, in a model of L layers
    with P parameters in all matrices of the layers, h heads of d, v words and width w:

        layers      max(2 P T / F,  P b / B)                  a multiply and an add for each parameter and token
        elementwise L (8 w + 3 i) T a / B                      norms, residuals, activation (i: inner width)
        logits      max(2 w v n / F,  w v b / B)
        decode      max(4 L h d C / F,  kv C / B)              QK' and PV: 2 multiply-adds for each pair and head
        prefill     max(4 L h d A / F',  kv C' / B)            C': context tokens of the prefill parts
        all-reduce  2 L (2 (k - 1) / k * w T a / link + latency)     over k GPUs (ring); none for k = 1

    b bytes a weight, a bytes an activation, kv bytes of keys and values a token; F, F' = peak * efficiency, B =
    bandwidth * memory_efficiency. The counts are Kaplan et al. 2020 (table 1) and Narayanan et al. (Megatron) 2021.
    To the sum come `host_s` a step and `mixed_s` if it holds prefill. With k GPUs the matrices and heads are split.

    The efficiencies are what vLLM 0.19's kernels reach with an 8B model on an H100, the host terms what a real run of
    vLLM 0.19 needs beside its kernels (see `bench/fit_default_latency.py`); both are round numbers, not a fit. Against
    the fits shipped for an 8B model on five GPUs it is off by up to 28 % (mostly too fast for large batches of decodes).
    """

    name = "roofline"

    def __init__(
        self,
        model: "ModelShape",
        gpu: "Gpu",
        compute_efficiency: float = 0.75,
        attention_efficiency: float = 0.55,
        memory_efficiency: float = 0.85,
        host_s: float = 0.0015,
        mixed_s: float = 0.0065,
        all_reduce_latency_s: float = 1e-5,
        tensor_parallel_size: int = 1,
    ) -> None:
        super().__init__()
        where = "latency=roofline"
        efficiencies = {
            "compute_efficiency": compute_efficiency,
            "attention_efficiency": attention_efficiency,
            "memory_efficiency": memory_efficiency,
        }
        for name, value in efficiencies.items():
            if positive(where, name, value) > 1:
                raise ValueError(f"{where}: {name} must be above 0 and at most 1, not {value}")
        self.model, self.gpu, self.efficiencies = model, gpu, efficiencies
        self.host_s = non_negative(where, "host_s", host_s)
        self.mixed_s = non_negative(where, "mixed_s", mixed_s)
        self.all_reduce_latency_s = non_negative(where, "all_reduce_latency_s", all_reduce_latency_s)
        self.gpus = int(positive(where, "tensor_parallel_size", tensor_parallel_size))
        if self.gpus > 1 and gpu.link_gib_s is None:
            raise ValueError(f"{where}: gpu {gpu.name} gives no link_gib_s, needed for tensor_parallel_size={self.gpus}")
        flops = gpu.peak_flops(model) * self.gpus
        self._flops = flops * compute_efficiency
        self._attention_flops = flops * attention_efficiency
        self._bandwidth = gpu.bandwidth_gb_s * 1e9 * memory_efficiency * self.gpus

    def decode_segments(self, sequences: int) -> list[Segment]:
        fixed_s = self._without_attention(sequences, sequences)
        per_token_s = max(self._pair_flops / self._flops, self.model.kv_bytes_per_token / self._bandwidth)
        return [Segment(math.inf, fixed_s, per_token_s)]

    def mixed_step_s(self, features: Features) -> float:
        decode_context = features.context_tokens - features.prefill_context_tokens
        per_token_s = max(self._pair_flops / self._flops, self.model.kv_bytes_per_token / self._bandwidth)
        prefill_s = max(
            self._pair_flops * features.prefill_attention / self._attention_flops,
            self.model.kv_bytes_per_token * features.prefill_context_tokens / self._bandwidth,
        )
        tokens = features.prefill_tokens + features.decode_tokens
        return self.mixed_s + self._without_attention(tokens, features.sequences) + per_token_s * decode_context + prefill_s

    @property
    def _pair_flops(self) -> float:
        return 4.0 * self.model.layers * self.model.heads * self.model.head_dim

    def _without_attention(self, tokens: int, sequences: int) -> float:
        model = self.model
        layers_s = max(
            2.0 * model.layer_matrix_parameters * tokens / self._flops,
            model.layer_matrix_parameters * model.weight_bytes / self._bandwidth,
        )
        moved = model.layers * (8 * model.hidden + 3 * model.intermediate) * model.dtype_bytes
        head = model.hidden * model.vocab
        logits_s = max(2.0 * head * sequences / self._flops, head * model.dtype_bytes / self._bandwidth)
        return self.host_s + layers_s + moved * tokens / self._bandwidth + logits_s + self.all_reduce_s(tokens)

    def all_reduce_s(self, tokens: int) -> float:
        """Seconds of the two all-reduces a layer makes for `tokens` tokens."""
        if self.gpus == 1 or self.gpu.link_gib_s is None:
            return 0.0
        sent = 2 * (self.gpus - 1) / self.gpus * self.model.hidden * tokens * self.model.dtype_bytes
        return 2 * self.model.layers * (sent / (self.gpu.link_gib_s * GIB) + self.all_reduce_latency_s)

    def describe(self) -> dict:
        return {
            "name": self.name,
            "model": self.model.name,
            "gpu": self.gpu.name,
            "source": "model shape and data sheet, nothing measured",
            "host_s": self.host_s,
            "mixed_s": self.mixed_s,
            **self.efficiencies,
        }
