"""vLLM's Scheduler and Request, made for a scenario. Nothing of them is changed; vLLM is imported here and nowhere else."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from twin.sim.scenario import Scenario
from twin.sim.scenario_file import ScenarioRequest

STOP = 7  # the token id by which the fake model ends a request early
LONGEST = 1 << 20  # max_model_len of the model that stands for all
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 2048,
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


class Parts:
    """vLLM's modules, and a configuration to start from: once a process."""

    def __init__(self) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        import torch

        _know_a_platform()
        from vllm import SamplingParams
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.request import Request, RequestStatus
        from vllm.v1.structured_output import StructuredOutputManager

        self.torch, self.SamplingParams, self.ModelRunnerOutput = torch, SamplingParams, ModelRunnerOutput
        self.Scheduler, self.AsyncScheduler = Scheduler, AsyncScheduler
        self.Request, self.aborted = Request, RequestStatus.FINISHED_ABORTED
        self.FullAttentionSpec, self.KVCacheConfig = FullAttentionSpec, KVCacheConfig
        self.KVCacheGroupSpec = KVCacheGroupSpec
        self.StructuredOutputManager = StructuredOutputManager
        self.sha256 = _sha256()
        self.hasher = get_request_block_hasher
        init_none_hash(self.sha256)
        self.base = _base_config()


@cache
def parts() -> Parts:
    """Imports vLLM: some seconds."""
    return Parts()


def _know_a_platform() -> None:
    """The scheduler runs anywhere; where vLLM finds no device that it was built for, it is told that this is a CPU."""
    from vllm import platforms

    if not platforms.current_platform.device_type:
        from vllm.platforms.cpu import CpuPlatform

        platforms._current_platform = CpuPlatform()


def _sha256() -> Any:
    try:
        from vllm.utils.hashing import sha256
    except ImportError:  # 0.11
        from vllm.utils import sha256
    return sha256


def _base_config() -> Any:
    """A configuration that vLLM has checked, of a model that is never loaded."""
    from vllm.engine.arg_utils import EngineArgs

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(TINY), encoding="utf-8")
        arguments = EngineArgs(
            model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="float32", max_model_len=LONGEST,
            max_num_batched_tokens=LONGEST, enforce_eager=True,
        )  # fmt: skip
        return arguments.create_engine_config()


def make_scheduler(scenario: Scenario, scheduler_class: Any = None, additional_config: Any = None) -> Any:
    """vLLM's scheduler with the scenario's limits.

    `scheduler_class`: one derived from it, which takes the policy, if it has one of its own, from `additional_config`.
    vLLM keeps block 0 as the null block, so its pool has one block more than the scenario says.
    """
    vllm, limits, rules = parts(), scenario.limits, scenario.rules
    config = copy.copy(vllm.base)
    for name in ("scheduler_config", "cache_config", "model_config"):
        setattr(config, name, copy.copy(getattr(config, name)))
    scheduler, pool = config.scheduler_config, config.cache_config
    scheduler.max_num_seqs = limits.max_num_seqs
    scheduler.max_num_batched_tokens = limits.max_num_batched_tokens
    if hasattr(scheduler, "max_num_scheduled_tokens"):
        scheduler.max_num_scheduled_tokens = None
    scheduler.enable_chunked_prefill = scheduler.chunked_prefill_enabled = limits.enable_chunked_prefill
    scheduler.long_prefill_token_threshold = limits.long_prefill_token_threshold
    scheduler.policy = scenario.policy_name if additional_config is None else "fcfs"
    if additional_config is not None:
        config.additional_config = additional_config
    scheduler.async_scheduling = rules.async_scheduling
    if hasattr(scheduler, "watermark"):
        scheduler.watermark = limits.watermark
    if hasattr(scheduler, "scheduler_reserve_full_isl"):
        scheduler.scheduler_reserve_full_isl = rules.scheduler_reserve_full_isl
    config.model_config.max_model_len = scheduler.max_model_len = limits.max_model_len
    blocks = limits.num_blocks + 1
    pool.block_size, pool.num_gpu_blocks = limits.block_size, blocks
    pool.enable_prefix_caching = limits.enable_prefix_caching
    groups = [vllm.KVCacheGroupSpec(["layer"], _attention_spec(limits.block_size))]
    sizes = {"block_size": limits.block_size, "hash_block_size": limits.block_size}
    made = scheduler_class or (vllm.AsyncScheduler if rules.async_scheduling else vllm.Scheduler)
    return made(
        vllm_config=config,
        kv_cache_config=vllm.KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups),
        structured_output_manager=vllm.StructuredOutputManager(config),
        log_stats=False,
        **_accepted(vllm.Scheduler, sizes),
    )


def _attention_spec(block_size: int) -> Any:
    vllm = parts()
    options = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1, "dtype": vllm.torch.float32}
    return vllm.FullAttentionSpec(**options, **_accepted(vllm.FullAttentionSpec, {"use_mla": False}))


def make_request(
    scenario: Scenario, row: ScenarioRequest, ids: list[int], max_tokens: int, extra_args: dict[str, Any] | None = None
) -> Any:
    """vLLM's request."""
    vllm, limits = parts(), scenario.limits
    sampling = vllm.SamplingParams(
        max_tokens=max_tokens, temperature=0, ignore_eos=True, stop_token_ids=[STOP], extra_args=extra_args
    )
    return vllm.Request(
        request_id=row.id,
        prompt_token_ids=ids,
        arrival_time=row.arrival_s,
        priority=row.priority,
        pooling_params=None,
        sampling_params=sampling,
        block_hasher=vllm.hasher(limits.block_size, vllm.sha256) if limits.enable_prefix_caching else None,
        **_accepted(vllm.Request, {"eos_token_id": None}),
    )


def make_output(names: list[str], tokens: list[list[int]]) -> Any:
    """What vLLM's model runner would return."""
    vllm = parts()
    more: dict[str, Any] = {"logprobs": None, "prompt_logprobs_dict": {}, "pooler_output": []}
    return vllm.ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: place for place, name in enumerate(names)},
        sampled_token_ids=tokens,
        **_accepted(vllm.ModelRunnerOutput, more, only_required=True),
    )


def _accepted(made: Any, options: dict[str, Any], only_required: bool = False) -> dict[str, Any]:
    """Those of the options that a class of this version takes (or asks for)."""
    import inspect

    parameters = inspect.signature(made).parameters
    return {
        name: value
        for name, value in options.items()
        if name in parameters and not (only_required and parameters[name].default is not inspect.Parameter.empty)
    }
