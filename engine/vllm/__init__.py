"""A policy of ours as the scheduler of vLLM 0.32 or 0.33 (docs/vllm.md).

    vllm serve MODEL --scheduler-cls engine.vllm.srpt
    vllm serve MODEL --scheduler-cls engine.vllm.TwinScheduler --additional-config '{"twin": {"policy": "srpt"}}'

Every policy that `twin policy list` shows has its class here, by its name. The modules begin with an underscore, as no
policy does, so that none of them hides one.
"""

from __future__ import annotations

from typing import Any

CLASSES = ("TwinScheduler", "AsyncTwinScheduler")


def __getattr__(name: str) -> Any:
    """One of the classes, or the class of the policy of that name. vLLM is imported here, and checked."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from engine.vllm._internals import check_version

    check_version()
    from engine.vllm import _scheduler

    if name in CLASSES:
        return getattr(_scheduler, name)
    return _scheduler.class_of(name)
