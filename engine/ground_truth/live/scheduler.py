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
from time import monotonic, thread_time, time
from typing import Any

SCHEDULER, STEP_LOG, CORES = "TWIN_RECORDED_SCHEDULER", "TWIN_STEP_LOG", "TWIN_SCHEDULER_CORES"
CLOCK, WALL, CPU = "TWIN_RECORDED_CLOCK", "wall", "cpu"
PLAIN = "vllm.v1.core.sched.scheduler.Scheduler"
FLUSH = "twin-flush"
ARRIVAL, OF = "recorded_arrival_s", "recorded_of"  # extra arguments of a request: when it comes, and of how many it is one


def __getattr__(name: str) -> Any:
    if name != "RecordingScheduler":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return recording(os.environ.get(SCHEDULER, PLAIN))


@cache
def recording(name: str) -> Any:
    """The scheduler class of this dotted name, with a record."""
    module, _, own = name.rpartition(".")
    base = getattr(import_module(module), own)
    recorder = Pacer if os.environ.get(CLOCK, WALL) == CPU else Recorder
    return type(f"Recording{base.__name__}", (recorder, base), {"__module__": __name__})


class Recorder:
    """Goes before a scheduler class. Asks nothing of it but what vLLM's engine asks, and reads counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if os.environ.get(CORES):
            os.sched_setaffinity(0, set(map(int, os.environ[CORES].split(","))))
        self.twin_added: dict[str, float] = {}
        self.twin_steps: list[dict[str, Any]] = []
        self.twin_open: dict[int, dict[str, Any]] = {}  # by the plan: steps that have not ended

    def twin_now_s(self) -> float:
        return monotonic()

    def twin_arrival(self) -> float:
        """On the clock that a policy goes by."""
        return time()

    def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """A policy sees it arrive when the scheduler is given it: by that ties are broken, here and in lockstep."""
        request.arrival_time = self.twin_arrival()
        self.twin_added[request.request_id] = self.twin_now_s()
        return super().add_request(request, *args, **kwargs)  # type: ignore[misc]

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        this: Any = self
        start_s = self.twin_now_s()
        before = {request.request_id for request in this.running}
        plan = super().schedule(*args, **kwargs)  # type: ignore[misc]
        planned_s = self.twin_now_s()
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
        computed_s = self.twin_now_s()
        told = super().update_from_output(plan, output, *args, **kwargs)  # type: ignore[misc]
        end_s = self.twin_now_s()
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


class Pacer(Recorder):
    """Time is CPU time of the thread that schedules and computes: what others take of its core is in no stamp.

    Requests are sent beforehand, all of a run, and let in here when this clock says that they come; while nothing is to be
    done it is set forward. A scheduler with a clock of its own (`engine.vllm`) goes by this one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.twin_held: list[tuple[float, int, Any]] = []  # (arrival, number, request), the next one last
        self.twin_begun = False
        self.twin_zero_s = 0.0  # of the thread's time
        if hasattr(type(self), "clock"):
            self.clock = self.twin_now_s

    def twin_now_s(self) -> float:
        return thread_time() - self.twin_zero_s

    def twin_arrival(self) -> float:
        return self.twin_now_s()

    def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        told = request.sampling_params.extra_args or {}
        if ARRIVAL not in told:
            return super().add_request(request, *args, **kwargs)
        self.twin_held.append((told[ARRIVAL], len(self.twin_held), request))
        if len(self.twin_held) == told[OF]:
            self.twin_held.sort(key=lambda held: held[:2], reverse=True)
            self.twin_begun, self.twin_zero_s = True, thread_time()
        return None

    def get_num_unfinished_requests(self) -> int:
        unfinished: int = super().get_num_unfinished_requests()  # type: ignore[misc]
        return unfinished + (len(self.twin_held) if self.twin_begun else 0)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        if self.twin_begun:
            self._let_in()
        return super().schedule(*args, **kwargs)

    def _let_in(self) -> None:
        """Who has come by now; if nobody is there, the next one comes now."""
        if self.twin_held and self.get_num_unfinished_requests() == len(self.twin_held):
            self.twin_zero_s -= max(0.0, self.twin_held[-1][0] - self.twin_now_s())
        while self.twin_held and self.twin_held[-1][0] <= self.twin_now_s():
            super().add_request(self.twin_held.pop()[2])
        self.twin_begun = bool(self.twin_held)
