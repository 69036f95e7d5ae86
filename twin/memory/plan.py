"""How much KV cache fits beside a model, by vLLM's arithmetic."""

import dataclasses
import math
from dataclasses import dataclass

from twin.memory.gpu import Gpu
from twin.memory.shape import ModelShape

GIB = 2**30
# vLLM's profiling run samples for every seat at once. Alive at its peak, for each word of the vocabulary: logits (2), the
# same in fp32 (4), sorted (4) with indices (8), softmax (4), cumulated (4), mask (1), scattered back (4), probabilities
# (4), exponential noise (4).
SAMPLER_BYTES = 39


@dataclass(frozen=True)
class MemoryPlan:
    """What each part of a GPU's memory is for, in bytes, and what KV cache that leaves. With tensor parallelism: of one
    GPU, and `kv_bytes_per_token` likewise.
    """

    memory_bytes: int
    gpu_memory_utilization: float
    weight_bytes: int
    activation_bytes: int
    reserve_bytes: int
    kv_bytes_per_token: int
    block_size: int
    tensor_blocks: int  # blocks of the tensor that is allocated
    max_model_len: int

    @property
    def usable_bytes(self) -> int:
        """What the server may take."""
        return int(self.memory_bytes * self.gpu_memory_utilization)

    @property
    def kv_bytes(self) -> int:
        """What is left for keys and values."""
        return self.usable_bytes - self.weight_bytes - self.activation_bytes - self.reserve_bytes

    @property
    def block_bytes(self) -> int:
        return self.kv_bytes_per_token * self.block_size

    @property
    def num_blocks(self) -> int:
        """Blocks that requests can have."""
        return usable_blocks(self.tensor_blocks)

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values fit."""
        return self.num_blocks * self.block_size

    def concurrent(self, request_tokens: int | None = None) -> int:
        """Most requests of `request_tokens` tokens each (default: the longest the model takes) that fit at once."""
        length = self.max_model_len if request_tokens is None else request_tokens
        if length < 1:
            raise ValueError(f"a request has at least 1 token, not {length}")
        return self.num_blocks // math.ceil(length / self.block_size)

    def runs_out(self, requests: int, request_tokens: int | None = None) -> bool:
        """Whether so many requests of that length at once need more blocks than there are."""
        return requests > self.concurrent(request_tokens)

    def warning(self) -> str | None:
        """Said if the pool is smaller than the longest request the model takes (vLLM would refuse to start)."""
        if self.tokens >= self.max_model_len:
            return None
        return (
            f"the KV cache holds {self.tokens:,} tokens, fewer than one request of model.max_model_len="
            f"{self.max_model_len:,}: longer requests are rejected"
        )

    def terms(self) -> list[tuple[str, str]]:
        """The calculation, a term a line: what, and how much of it."""
        return [
            ("GPU memory", both(self.memory_bytes)),
            (f"usable (x {self.gpu_memory_utilization:g})", both(self.usable_bytes)),
            ("- weights", both(self.weight_bytes)),
            ("- activations at their peak", both(self.activation_bytes)),
            ("- CUDA context and graphs", both(self.reserve_bytes)),
            ("= for the KV cache", both(self.kv_bytes)),
            ("KV cache of a token", f"{self.kv_bytes_per_token:,} bytes"),
            (f"KV cache of a block of {self.block_size} tokens", f"{self.block_bytes:,} bytes"),
            ("blocks (one more is the null block)", f"{self.num_blocks:,}"),
            ("tokens", f"{self.tokens:,}"),
            (f"requests of {self.max_model_len:,} tokens at once", f"{self.concurrent():,}"),
        ]


def plan_memory(
    model: ModelShape,
    gpu: Gpu,
    *,
    gpu_memory_utilization: float = 0.9,
    block_size: int = 16,
    max_num_batched_tokens: int = 8192,
    max_num_seqs: int = 256,
    max_model_len: int | None = None,
    tensor_parallel_size: int = 1,
) -> MemoryPlan:
    """The plan, by vLLM's rule: blocks = floor((memory * utilization - weights - activation peak - reserve) / block bytes).

    Raises ValueError, with the numbers and what would fit, if not even two blocks are left (the null block and one to use).
    """
    if not 0 < gpu_memory_utilization <= 1:
        raise ValueError(f"cache.gpu_memory_utilization must be above 0 and at most 1, not {gpu_memory_utilization}")
    for name, value in {
        "cache.block_size": block_size,
        "scheduler.max_num_batched_tokens": max_num_batched_tokens,
        "scheduler.max_num_seqs": max_num_seqs,
        "model.max_model_len": 1 if max_model_len is None else max_model_len,
        "parallel.tensor_parallel_size": tensor_parallel_size,
    }.items():
        if value < 1:
            raise ValueError(f"{name} must be 1 or more, not {value}")
    split = tensor_parallel_size
    kv_heads = max(1, math.ceil(model.kv_heads / split))  # fewer heads than GPUs: each GPU keeps a copy
    plan = MemoryPlan(
        memory_bytes=int(gpu.memory_gib * GIB),
        gpu_memory_utilization=gpu_memory_utilization,
        weight_bytes=math.ceil(model.total_weight_bytes / split),
        activation_bytes=activation_peak(model, max_num_batched_tokens, max_num_seqs, split),
        reserve_bytes=int(gpu.reserve_gib * GIB),
        kv_bytes_per_token=model.kv_bytes_per_token // model.kv_heads * kv_heads,
        block_size=block_size,
        tensor_blocks=0,
        max_model_len=max_model_len or model.max_position,
    )
    tensor_blocks = plan.kv_bytes // plan.block_bytes
    if tensor_blocks < 2:  # the null block and one to use
        raise ValueError(too_big(model, gpu, plan, split))
    return dataclasses.replace(plan, tensor_blocks=tensor_blocks)


def usable_blocks(tensor_blocks: int) -> int:
    """Blocks that requests can have of a pool's tensor: vLLM keeps block 0 as the null block, whatever is free."""
    return max(0, tensor_blocks - 1)


def activation_peak(model: ModelShape, max_num_batched_tokens: int, max_num_seqs: int, split: int = 1) -> int:
    """Bytes of activations alive at the worst moment of a full step.

    Either in the feed-forward part (residual and hidden states, gate, up and their product) of all tokens of the budget,
    or in the sampler for all seats. vLLM measures this when it starts: 1.26 GiB for Llama-3-8B with 8,192 tokens and 256
    seats (vLLM pull request 10511), where this gives 1.19 GiB.
    """
    rows = 2 if model.architecture == "opt" else 3
    forward = max_num_batched_tokens * (2 * model.hidden + rows * model.intermediate // split) * model.dtype_bytes
    return max(forward, min(max_num_seqs, max_num_batched_tokens) * model.vocab * SAMPLER_BYTES)


def requests_in(budget_bytes: float, bytes_per_token: float, tokens: float, use: float = 1.0) -> float:
    """Requests of `tokens` tokens in a KV budget of which the share `use` holds tokens (the rest: lost to reservation)."""
    return budget_bytes * use / (bytes_per_token * tokens)


def both(count: float) -> str:
    """Bytes in GB (10^9) and in GiB (2^30), both named."""
    return f"{count / 1e9:.2f} GB ({count / GIB:.2f} GiB)"


def too_big(model: ModelShape, gpu: Gpu, plan: MemoryPlan, split: int) -> str:
    """Why there is no KV cache, and what would help."""
    need = plan.weight_bytes + plan.activation_bytes + plan.reserve_bytes + 2 * plan.block_bytes
    share = need / plan.memory_bytes
    advice = [f"a GPU of {need / plan.gpu_memory_utilization / GIB:.1f} GiB or more"]
    if share <= 0.98:
        advice.append(f"cache.gpu_memory_utilization={math.ceil(share * 100) / 100:g}")
    others = need - plan.weight_bytes
    gpus = next((2**power for power in range(1, 7) if others + plan.weight_bytes / 2**power <= plan.usable_bytes), None)
    if gpus:
        advice.append(f"parallel.tensor_parallel_size={split * gpus}")
    if not model.quantization:
        rest = (model.parameters - model.layer_matrix_parameters) * model.dtype_bytes
        for name, size in (("fp8", 1.0), ("int4", 0.52)):
            if others + (rest + model.layer_matrix_parameters * size) / split <= plan.usable_bytes:
                advice.append(f"model.quantization={name}")
                break
    return (
        f"model={model.name} does not fit gpu={gpu.name}: weights {both(plan.weight_bytes)} + activations "
        f"{both(plan.activation_bytes)} + reserve {both(plan.reserve_bytes)} leave no two blocks of "
        f"{plan.block_bytes:,} bytes in {both(plan.usable_bytes)} ({plan.gpu_memory_utilization:g} of "
        f"{both(plan.memory_bytes)}); would fit: {', or '.join(advice)}"
    )
