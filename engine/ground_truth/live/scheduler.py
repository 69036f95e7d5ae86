"""Any scheduler of vLLM's, with every step of it on record: `scheduler_cls` of the vLLM that is compared.

`RecordingScheduler` of this module is the class that $TWIN_RECORDED_SCHEDULER names (a policy's, `engine.vllm.srpt`, or
vLLM's own), with `Recorder` before it. It lives in the process of vLLM's engine: stamps are taken where decisions are. What
it has seen is written to $TWIN_STEP_LOG when the request whose id begins with `FLUSH` has ended, which is between two runs
and costs no step anything.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import import_module
from time import monotonic
from typing import Any

SCHEDULER, STEP_LOG, CORES = "TWIN_RECORDED_SCHEDULER", "TWIN_STEP_LOG", "TWIN_SCHEDULER_CORES"
PLAIN = "vllm.v1.core.sched.scheduler.Scheduler"
FLUSH = "twin-flush"


def __getattr__(name: str) -> Any:
    if name != "RecordingScheduler":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return recording(os.environ.get(SCHEDULER, PLAIN))


@cache
def recording(name: str) -> Any:
    """The scheduler class of this dotted name, with a record."""
    module, _, own = name.rpartition(".")
    base = getattr(import_module(module), own)
    return type(f"Recording{base.__name__}", (Recorder, base), {"__module__": __name__})


class Recorder:
    """Goes before a scheduler class. Asks nothing of it but what vLLM's engine asks, and reads counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if os.environ.get(CORES):
            os.sched_setaffinity(0, set(map(int, os.environ[CORES].split(","))))
        self.twin_added: dict[str, float] = {}
        self.twin_steps: list[dict[str, Any]] = []
        self.twin_open: dict[int, dict[str, Any]] = {}  # by the plan: steps that have not ended

    def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.twin_added[request.request_id] = monotonic()
        return super().add_request(request, *args, **kwargs)  # type: ignore[misc]

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        this: Any = self
        start_s = monotonic()
        before = {request.request_id for request in this.running}
        plan = super().schedule(*args, **kwargs)  # type: ignore[misc]
        planned_s = monotonic()
        parts = []
        for name, tokens in plan.num_scheduled_tokens.items():
            parts.append((name, tokens, this.requests[name].num_computed_tokens - tokens))
        if parts:
            self.twin_open[id(plan)] = {
                "start_s": start_s,
                "planned_s": planned_s,
                "parts": parts,
                "admitted": [name for name, _, _ in parts if name not in before],
                "preempted": sorted(plan.preempted_req_ids or ()),
                "waiting": len(this.waiting),
                "running": len(this.running),
                "free_blocks": this.kv_cache_manager.block_pool.get_num_free_blocks(),
            }
        return plan

    def update_from_output(self, plan: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        computed_s = monotonic()
        told = super().update_from_output(plan, output, *args, **kwargs)  # type: ignore[misc]
        end_s = monotonic()
        step = self.twin_open.pop(id(plan), None)
        if step is not None:
            lines = [line for outputs in told.values() for line in outputs.outputs]
            step |= {"computed_s": computed_s, "end_s": end_s}
            step["tokens"] = [line.request_id for line in lines if line.new_token_ids]
            self.twin_steps.append(step)
            if any(line.finish_reason is not None and line.request_id.startswith(FLUSH) for line in lines):
                self._write()
        return told

    def _write(self) -> None:
        """All since the last time, as one line; the file is the reader's from then on."""
        this: Any = self
        pool = this.kv_cache_manager.block_pool
        content = {"num_gpu_blocks": pool.num_gpu_blocks, "added": self.twin_added, "steps": self.twin_steps}
        path = os.environ[STEP_LOG]
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(f"{path}.part", path)
        self.twin_added, self.twin_steps = {}, []
