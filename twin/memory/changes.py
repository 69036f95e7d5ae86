"""What would make more requests fit: the same plan with one thing changed."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twin.memory.gpu import Gpu
from twin.memory.plan import MemoryPlan, plan_memory
from twin.memory.shape import ModelShape

MOST_GPUS = 8  # of a machine
UTILIZATION = 0.95  # about the most that leaves room for others' allocations
SMALL_BUDGET = 2048  # tokens a step: fewer activations


@dataclass(frozen=True)
class Change:
    """Options, and the plan under them; None: the model does not fit."""

    options: Mapping[str, Any]
    plan: MemoryPlan | None

    def concurrent(self, tokens: int) -> int:
        """Most requests of so many tokens at once."""
        return self.plan.concurrent(tokens) if self.plan else 0

    @property
    def words(self) -> str:
        """The options as one types them."""
        return " ".join(f"{name}={value}" for name, value in self.options.items())


def changes(model: ModelShape, gpu: Gpu, arguments: Mapping[str, Any], requests: int, tokens: int) -> list[Change]:
    """Each thing that may help `requests` of `tokens` tokens each to fit, alone, and the two kinds of fp8 together.

    `arguments` are those of `plan_memory` now. Where the model fits, a shorter request is among them: the longest that
    fits at all, if none of that length does, and the longest of which so many fit.
    """
    now = _planned({}, model, arguments, gpu).plan
    found = [_planned(options, *parts) for options, *parts in _candidates(model, gpu, arguments)]
    if now is not None:  # what brings nothing is no advice
        found = [change for change in found if change.plan is not None and change.plan.num_blocks > now.num_blocks]
    if now is not None and now.concurrent(tokens) < 1:
        found.append(_shorter(now, now.num_blocks))  # the longest single request
    if now is not None and now.concurrent(tokens) < requests <= now.num_blocks:
        found.append(_shorter(now, now.num_blocks // requests))
    return found


def _shorter(now: MemoryPlan, blocks: int) -> Change:
    """Requests of at most so many blocks."""
    longest = blocks * now.block_size
    return Change({"model.max_model_len": longest}, dataclasses.replace(now, max_model_len=longest))


def _planned(options: dict[str, Any], model: ModelShape, arguments: Mapping[str, Any], gpu: Gpu) -> Change:
    try:
        return Change(options, plan_memory(model, gpu, **arguments))
    except ValueError:
        return Change(options, None)


def _candidates(
    model: ModelShape, gpu: Gpu, now: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], ModelShape, Any, Gpu]]:
    split = now.get("tensor_parallel_size", 1)
    for gpus in (split * 2**power for power in range(1, 4)):
        if gpus <= MOST_GPUS and splits_evenly(model, gpus):
            yield {"parallel.tensor_parallel_size": gpus}, model, {**now, "tensor_parallel_size": gpus}, gpu
    fp8_kv = dataclasses.replace(model, kv_cache_dtype="fp8")
    halved = fp8_kv.kv_bytes_per_token < model.kv_bytes_per_token
    if halved:
        yield {"cache.kv_cache_dtype": "fp8"}, fp8_kv, now, gpu
    if model.quantization is None:
        for name in ("fp8", "int4"):
            yield {"model.quantization": name}, dataclasses.replace(model, quantization=name), now, gpu
        if halved:
            both = {"model.quantization": "fp8", "cache.kv_cache_dtype": "fp8"}
            yield both, dataclasses.replace(fp8_kv, quantization="fp8"), now, gpu
    if now.get("gpu_memory_utilization", 0.9) < UTILIZATION:
        yield {"cache.gpu_memory_utilization": UTILIZATION}, model, {**now, "gpu_memory_utilization": UTILIZATION}, gpu
    if now.get("max_num_batched_tokens", 8192) > SMALL_BUDGET:
        smaller = {"scheduler.max_num_batched_tokens": SMALL_BUDGET}
        yield smaller, model, {**now, "max_num_batched_tokens": SMALL_BUDGET}, gpu


def splits_evenly(model: ModelShape, gpus: int) -> bool:
    """Whether vLLM would take so many GPUs: as many heads on each, KV heads evenly or as copies."""
    return model.heads % gpus == 0 and not (model.kv_heads % gpus and gpus % model.kv_heads)


@dataclass(frozen=True)
class KvBudget:
    """A KV cache of so many bytes, of which the share `use` holds tokens: the arithmetic of the textbooks."""

    budget_bytes: float
    bytes_per_token: float
    use: float = 1.0

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values it holds."""
        return math.floor(self.budget_bytes * self.use / self.bytes_per_token)

    def concurrent(self, tokens: int) -> int:
        """Whole requests of so many tokens each."""
        return math.floor(self.budget_bytes * self.use / (self.bytes_per_token * tokens))

    def needed_bytes(self, requests: int, tokens: int) -> float:
        """Bytes that so many requests of so many tokens take, what is reserved in vain included."""
        return requests * tokens * self.bytes_per_token / self.use
