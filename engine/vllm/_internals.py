"""What of vLLM the adapter relies on. None of it is public: it is looked for at the start, and named if it is gone."""

from __future__ import annotations

from typing import Any

from engine.oracle.versions import DIFFERENCES, NotHere, installed

SUPPORTED = ("0.33", "0.32")  # tests/vllm passes with these
OF_THE_CLASS = (
    "schedule", "update_from_output", "add_request", "finish_requests", "_preempt_request", "_free_request",
    "_update_after_schedule", "_handle_blocked_waiting_request", "_reserve_prefill_lookahead", "get_request_counts",
)  # fmt: skip
OF_AN_INSTANCE = (
    "requests", "waiting", "running", "policy", "kv_holding_waiting", "deferred_waiting", "grammar_compile_error_reqs",
    "max_num_active_reqs", "max_num_scheduled_tokens", "max_model_len", "num_waiting_for_streaming_input", "block_size",
    "hash_block_size", "scheduler_config", "cache_config", "kv_cache_manager", "kv_cache_manager.allocate_slots",
    "kv_cache_manager.get_computed_blocks", "kv_cache_manager.block_pool.get_num_free_blocks",
    "kv_cache_manager.block_pool.evict_blocks", "kv_cache_manager.block_pool.num_gpu_blocks",
    "kv_cache_manager.coordinator.single_type_managers",
)  # fmt: skip
OF_A_MANAGER = ("req_to_blocks", "num_cached_block")
OF_A_REQUEST = (
    "request_id", "arrival_time", "status", "priority", "sampling_params", "max_tokens", "num_prompt_tokens", "num_tokens",
    "num_computed_tokens", "num_output_tokens", "num_output_placeholders", "num_preemptions", "block_hashes", "resumable",
    "is_prefill_chunk",
)  # fmt: skip


class Unsupported(ImportError):
    """This vLLM cannot carry a policy; the message says why, in one line."""


def check_version() -> str:
    """The version that is installed, "0.32"; raises `Unsupported` if the adapter does not know it."""
    try:
        version = installed()
    except NotHere as error:
        raise Unsupported(f"engine.vllm: {error}") from error
    if version not in SUPPORTED:
        words = ", ".join(SUPPORTED)
        known = "is known to the oracle alone" if version in DIFFERENCES else "is not known"
        raise Unsupported(f"engine.vllm: vLLM {version} {known}; policies run in vLLM {words} (docs/vllm.md)")
    return version


def check_class(scheduler_class: Any) -> None:
    """Raises `Unsupported` for a method that vLLM's scheduler has no more."""
    _ask(scheduler_class, OF_THE_CLASS, "Scheduler")


def check_instance(scheduler: Any) -> None:
    """Raises `Unsupported` for an attribute that a scheduler has no more."""
    _ask(scheduler, OF_AN_INSTANCE, "Scheduler")
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    _ask(managers[0], OF_A_MANAGER, "KVCacheManager of one kind of layers")
    if len(managers) > 1:
        raise Unsupported(f"engine.vllm: a model with {len(managers)} kinds of KV cache: policies count blocks of one kind")


def check_request(request: Any) -> None:
    """Raises `Unsupported` for an attribute that a request has no more."""
    _ask(request, OF_A_REQUEST, "Request")


def changed(what: str) -> Unsupported:
    """What to raise where vLLM is not as it was."""
    return Unsupported(
        f"engine.vllm: this vLLM has no {what}, which the adapter relies on (vLLM {', '.join(SUPPORTED)} have it)"
    )


def _ask(owner: Any, names: tuple[str, ...], title: str) -> None:
    for name in names:
        found = owner
        for part in name.split("."):
            if not hasattr(found, part):
                raise changed(f"{title}.{name}")
            found = getattr(found, part)
