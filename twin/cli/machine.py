"""The served model on its GPU, from the options: shape, data sheet, KV blocks by vLLM's arithmetic."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError, naming
from twin.cli.options import integer, or_null, shown
from twin.core.limits import MOST

if TYPE_CHECKING:
    from twin.memory import Gpu, MemoryPlan, ModelShape

GIB = 2**30
MOST_GIB = 2**20  # of a GPU; beyond it is a slip


@dataclass(frozen=True)
class Machine:
    """What serves: a model on so many GPUs, and the longest request that it takes."""

    model: "ModelShape"
    gpu: "Gpu"
    gpus: int
    max_model_len: int  # tokens
    notes: tuple[str, ...]


def machine(config: dict[str, Any]) -> Machine:
    """The machine of a checked configuration; raises `UserError`."""
    from twin.memory import gpu_from, model_shape

    with naming("model"):
        model = model_shape(config["model"], config["cache"]["kv_cache_dtype"])
    with naming("gpu"):
        gpu = gpu_from(config["gpu"])
    if (memory := config["gpu"]["memory_gib"]) > MOST_GIB:
        raise UserError(f"gpu.memory_gib={memory}: must be at most {MOST_GIB:,}")
    parallel, asked = config["parallel"], config["model"].get("max_model_len")
    _check_shares(model, parallel["tensor_parallel_size"])
    if parallel["pipeline_parallel_size"] > 1:
        raise UserError("parallel.pipeline_parallel_size: pipelines come later; it must be 1")
    if not (rule := or_null(integer(1, MOST["max_model_len"]))).allows(asked):
        raise UserError(f"model.max_model_len={shown(asked)}: must be {rule.words}")
    notes = []
    if asked is not None and asked > model.max_position:
        made_for = f"model={model.name} was made for {model.max_position:,} tokens"
        notes.append(f"model.max_model_len={asked:,}: {made_for}; what it says beyond is not to be trusted")
    return Machine(model, gpu, parallel["tensor_parallel_size"], asked or model.max_position, tuple(notes))


def _check_shares(model: "ModelShape", gpus: int) -> None:
    """As vLLM: every GPU has as many attention heads as every other, and KV heads evenly or as copies."""
    if model.heads % gpus or (model.kv_heads % gpus and gpus % model.kv_heads):
        fit = [size for size in range(1, model.heads + 1) if model.heads % size == 0]
        right = ", ".join(str(size) for size in fit if not (model.kv_heads % size and size % model.kv_heads))
        heads = f"model={model.name} has {model.heads} attention heads and {model.kv_heads} KV heads"
        raise UserError(f"parallel.tensor_parallel_size={gpus}: {heads}; it must be one of {right}")


def memory_plan(config: dict[str, Any], served: Machine) -> "MemoryPlan":
    """What fits beside the weights; raises `UserError` with the numbers when the model does not fit."""
    from twin.memory import plan_memory

    with naming("model"):
        return plan_memory(served.model, served.gpu, **plan_arguments(config, served))


def plan_arguments(config: dict[str, Any], served: Machine) -> dict[str, Any]:
    """What of the options the memory depends on, as `plan_memory` takes it."""
    cache, scheduler = config["cache"], config["scheduler"]
    return {
        "gpu_memory_utilization": cache["gpu_memory_utilization"],
        "block_size": cache["block_size"],
        "max_num_batched_tokens": scheduler["max_num_batched_tokens"],
        "max_num_seqs": scheduler["max_num_seqs"],
        "max_model_len": served.max_model_len,
        "tensor_parallel_size": served.gpus,
    }


def block_bytes(config: dict[str, Any], served: Machine) -> int:
    """Bytes of a block on one of the GPUs; with fewer KV heads than GPUs each keeps a copy."""
    model = served.model
    heads = max(1, -(-model.kv_heads // served.gpus))
    return model.kv_bytes_per_token // model.kv_heads * heads * config["cache"]["block_size"]


def resolve_sizes(config: dict[str, Any], served: Machine, why_given: str = "as given") -> list[str]:
    """Fills in the sizes that were null (blocks of both pools, model.max_model_len); says in words how."""
    cache = config["cache"]
    config["model"]["max_model_len"] = served.max_model_len
    lines = list(served.notes)
    if cache["num_gpu_blocks"] is None:
        plan = memory_plan(config, served)
        if plan.num_blocks > (most := MOST["num_blocks"]):
            raise UserError(f"gpu={served.gpu.name}: room for {plan.num_blocks:,} KV blocks; there may be at most {most:,}")
        cache["num_gpu_blocks"] = plan.num_blocks
        parts = (plan.weight_bytes, plan.activation_bytes, plan.reserve_bytes)
        weights, activations, reserve = (f"{part / GIB:.2f}" for part in parts)
        terms = f"{plan.usable_bytes / GIB:.2f} GiB - weights {weights} - activations {activations} - reserve {reserve}"
        why = f"{terms}, {plan.block_bytes / 2**20:.4g} MiB a block"
        lines += [warning] if (warning := plan.warning()) else []
    else:
        why = why_given
    if cache["num_cpu_blocks"] is None:
        host_blocks = int(cache["swap_space_gib"] * GIB) // block_bytes(config, served)
        if host_blocks > (most := MOST["num_host_blocks"]):
            found = f"{host_blocks:,} blocks of {block_bytes(config, served):,} bytes"
            raise UserError(f"cache.swap_space_gib={cache['swap_space_gib']}: {found}; there may be at most {most:,}")
        cache["num_cpu_blocks"] = host_blocks
    blocks, size = cache["num_gpu_blocks"], cache["block_size"]
    lines.insert(0, f"KV cache: {blocks:,} blocks of {size} tokens = {blocks * size:,} tokens ({why})")
    return lines
