"""The served system, from the options of the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twin.calibrate.requests.fit import Blocks
from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.served import Served
from twin.calibrate.requests.workload import LogWorkload
from twin.core.limits import MOST, NO_LIMIT, VLLM_RULES, Limits, Rules
from twin.memory import gpu_from, model_shape, plan_memory

if TYPE_CHECKING:
    from twin.calibrate.options import Options
    from twin.memory import Gpu, ModelShape


@dataclass(frozen=True)
class Hardware:
    """What the log was served with, as far as the user says it."""

    model: ModelShape
    gpu: Gpu
    gpus: int


def hardware(options: Options) -> Hardware | None:
    """None where neither model nor GPU is given: those of the defaults did not serve this log."""
    given = [name for name in ("model", "gpu") if name in options.given]
    if len(given) == 1:
        other = "gpu" if given == ["model"] else "model"
        raise ValueError(
            f"{other}: missing; {given[0]} alone gives no idea of a step: give both, or neither (trusting the log alone)"
        )
    if not given:
        return None
    values = options.values
    model = model_shape(values["model"], values["cache"]["kv_cache_dtype"])
    return Hardware(model, gpu_from(values["gpu"]), values["parallel"]["tensor_parallel_size"])


def served(options: Options, log: RequestLog, machine: Hardware | None) -> tuple[Served, Blocks]:
    """The system, its pool as given or planned (or of any size, where nothing is known), and what is known of it.

    Raises ValueError where a request of the log could not have been served by it.
    """
    values = options.values
    if values["policy"]["name"] != "fcfs":
        raise ValueError(f"policy={values['policy']['name']}: a log is calibrated as served by fcfs, vLLM's own order")
    cache, scheduler = values["cache"], values["scheduler"]
    blocks = Blocks(cache["num_gpu_blocks"], None if machine is None else planned(values, machine))
    said = machine is not None or "model.max_model_len" in options.given
    longest = values["model"].get("max_model_len") if said else None
    limits = Limits(
        num_blocks=blocks.given or blocks.planned or 1,
        block_size=cache["block_size"],
        max_num_seqs=scheduler["max_num_seqs"],
        max_num_batched_tokens=scheduler["max_num_batched_tokens"],
        long_prefill_token_threshold=scheduler["long_prefill_token_threshold"],
        max_model_len=longest or (machine.model.max_position if machine else NO_LIMIT),
        enable_chunked_prefill=scheduler["enable_chunked_prefill"],
        enable_prefix_caching=cache["enable_prefix_caching"],
        watermark=cache["watermark"],
    )
    refuse_impossible(log, limits, blocks)
    workload = LogWorkload(log, limits.block_size)
    rules = {name: values[section][name] for name, section in VLLM_RULES.items()}
    return Served(workload, limits, Rules(async_scheduling=scheduler["async_scheduling"], **rules)), blocks


def planned(values: Any, machine: Hardware) -> int | None:
    """Blocks by the memory plan, where the options do not say how many."""
    cache, scheduler = values["cache"], values["scheduler"]
    if cache["num_gpu_blocks"] is not None:
        return None
    return plan_memory(
        machine.model,
        machine.gpu,
        gpu_memory_utilization=cache["gpu_memory_utilization"],
        block_size=cache["block_size"],
        max_num_batched_tokens=scheduler["max_num_batched_tokens"],
        max_num_seqs=scheduler["max_num_seqs"],
        tensor_parallel_size=machine.gpus,
    ).num_blocks


def refuse_impossible(log: RequestLog, limits: Limits, blocks: Blocks) -> None:
    """No request may be one that this system rejects; a pool that is not given may still turn out larger."""
    room = limits if blocks.given else replace(limits, num_blocks=MOST["num_blocks"])
    for name, prompt, output in zip(log.request_id, log.prompt_tokens.tolist(), log.output_tokens.tolist(), strict=True):
        if reason := room.why_never(prompt, output):
            raise ValueError(f"{log.source}: request {name} was served, but could not have been by this system: {reason}")
        if prompt + output > limits.max_model_len:
            raise ValueError(
                f"{log.source}: request {name} has {prompt + output:,} tokens, more than "
                f"model.max_model_len={limits.max_model_len:,}"
            )
