"""Plays a scenario through vLLM's scheduler: its engine's loop, with a virtual clock and a fake model runner.

The runner returns a token for each request whose scheduled tokens complete it, as `EngineCore` would get them; in a
request's last step the stop token, if the file's `output_tokens` comes before its `max_tokens`. Two rules are not vLLM's:
a request that could never be served is rejected when it arrives (vLLM's scheduler alone waits for ever), and latencies are
the scenario's. Block ids are vLLM's minus one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from engine.oracle.build import make_output, make_request, make_scheduler, parts
from engine.oracle.followed import Followed
from twin.core.batch import Features
from twin.sim.scenario import Scenario
from twin.sim.scenario_file import ScenarioRequest

EARLY_S = 1e-12
IDLE_PLANS = 4  # so many plans in a row with nothing scheduled: only an event can help
MOST_STEPS = 20_000
Row = dict[str, Any]


class Unplayable(ValueError):
    """vLLM comes to a state that its own engine could not go on from."""


class Play:
    """One scenario. `abort_before_update`: with a batch that has ended, before its tokens are counted (since 0.21 or so).

    `scheduler_class`, `additional_config`: a scheduler derived from vLLM's, and what it is told (engine.vllm). One that has
    an attribute `clock` gets the virtual one, and one that has `admitted` is asked for it. `extra_args`: what a request
    brings for it.
    """

    def __init__(
        self,
        scenario: Scenario,
        scheduler_class: Any = None,
        abort_before_update: bool = True,
        additional_config: Any = None,
        extra_args: Callable[[ScenarioRequest], dict[str, Any]] | None = None,
    ) -> None:
        self.scenario = scenario
        self.scheduler = make_scheduler(scenario, scheduler_class, additional_config)
        self.extra_args = extra_args
        self.abort_before_update = abort_before_update
        self.requests = {row.id: Followed(row, place) for place, row in enumerate(scenario.requests)}
        self.to_come = deque(sorted(self.requests.values(), key=lambda followed: followed.row.arrival_s))
        self.now_s = self.device_free_s = 0.0
        if hasattr(self.scheduler, "clock"):
            self.scheduler.clock = lambda: self.now_s
        self.rows: list[Row] = []
        self.stalled = False

    def run(self) -> list[Row]:
        """The steps, and last the summary."""
        if self.scenario.rules.async_scheduling:
            self._asynchronous()
        else:
            self._synchronous()
        if len(self.rows) >= MOST_STEPS:
            raise Unplayable(f"{MOST_STEPS} steps, and no end")
        return [*self.rows, {"summary": self._summary()}]

    # --- what comes from outside

    def _take_arrivals(self) -> None:
        while self.to_come and self.to_come[0].row.arrival_s <= self.now_s + EARLY_S:
            followed = self.to_come.popleft()
            row, limits = followed.row, self.scenario.limits
            if row.abort_s is not None and row.abort_s <= self.now_s:
                followed.status, followed.reason = "aborted", "abort"
                continue
            followed.reason = limits.why_never(row.prompt_tokens, followed.most)
            if followed.reason is not None:
                followed.status = "rejected"
                continue
            followed.most = min(followed.most, limits.max_model_len - row.prompt_tokens)
            extra = None if self.extra_args is None else self.extra_args(row)
            followed.request = make_request(self.scenario, row, followed.ids, followed.most, extra)
            try:
                self.scheduler.add_request(followed.request)
            except TypeError as error:  # 0.11's queue compares requests, which know no order
                raise Unplayable("vLLM cannot tell two requests apart that have one priority and one arrival") from error

    def _abort(self) -> list[str]:
        """Who is given up by now, one after the other: vLLM itself frees those of one message in no certain order."""
        due = [
            (followed.row.abort_s, followed.place, name)
            for name, followed in self.requests.items()
            if self._lives(followed) and followed.row.abort_s is not None and followed.row.abort_s <= self.now_s
        ]
        gone = [name for *_, name in sorted(due)]
        for name in gone:
            self.requests[name].status, self.requests[name].reason = "aborted", "abort"
            self.scheduler.finish_requests(name, parts().aborted)
        return gone

    @staticmethod
    def _lives(followed: Followed) -> bool:
        return followed.request is not None and followed.status == "unfinished"

    def _go_to_next_event(self) -> bool:
        """Nothing can be done now: on to the next arrival or abort, if there is one."""
        times = [self.to_come[0].row.arrival_s] if self.to_come else []
        times += [
            followed.row.abort_s
            for followed in self.requests.values()
            if self._lives(followed) and followed.row.abort_s is not None
        ]
        if not times:
            self.stalled = self.scheduler.has_unfinished_requests()
            return False
        self.now_s = max(self.now_s, min(times))
        self._abort()
        return True

    # --- the two loops of EngineCore

    def _synchronous(self) -> None:
        """`step`: plan, compute, update."""
        while len(self.rows) < MOST_STEPS:
            self._abort()
            self._take_arrivals()
            if not self.scheduler.has_unfinished_requests():
                if not self._go_to_next_event():
                    return
                continue
            planned, output, row, seconds = self._plan()
            if row["scheduled"]:
                self.now_s += seconds
                self._number(row, self.now_s)
                self._update(planned, output, row, self._abort() if self.abort_before_update else [])
                continue
            self._update(planned, output, row, [])
            if row["preempted"]:
                self._number(row, self.now_s)
            elif not self._go_to_next_event():
                return

    def _asynchronous(self) -> None:
        """`step_with_batch_queue`: two batches in flight; the device computes one after the other."""
        queue: deque[tuple[Any, Any, Row]] = deque()
        idle = 0
        while len(self.rows) < MOST_STEPS:
            if not self.abort_before_update:
                self._abort()
            self._take_arrivals()
            if not self.scheduler.has_requests() and not queue:
                if not self._go_to_next_event():
                    return
                continue
            if self.scheduler.has_requests():
                planned, output, row, seconds = self._plan()
                executed = bool(row["scheduled"])
                idle = 0 if executed else idle + 1
                if executed:
                    row["planned_s"], row["start_s"] = self.now_s, max(self.now_s, self.device_free_s)
                    self.device_free_s = row["start_s"] + seconds
                    self._number(row, self.device_free_s)
                else:
                    row["end_s"] = self.now_s
                    if row["preempted"]:
                        self._number(row, self.now_s)
                queue.append((planned, output, row))
                if len(queue) < 2 and (executed or self.scheduler.has_requests()):
                    if idle > IDLE_PLANS and not executed and self.scheduler.has_unfinished_requests():
                        if not self._go_to_next_event():
                            return
                        idle = 0
                    continue
            planned, output, row = queue.popleft()
            self.now_s = max(self.now_s, row["end_s"])
            self._update(planned, output, row, self._abort() if self.abort_before_update else [])
            if idle > IDLE_PLANS and not any(waiting["scheduled"] for *_, waiting in queue):
                if not self._go_to_next_event():
                    return
                idle = 0

    # --- one step

    def _plan(self) -> tuple[Any, Any, Row, float]:
        """vLLM's plan, what its runner will return, the row of it, and how long it takes."""
        scheduler = self.scheduler
        before = [request.request_id for request in scheduler.running]
        placeholders = {name: request.num_output_placeholders for name, request in scheduler.requests.items()}
        planned = scheduler.schedule()
        scheduled = dict(planned.num_scheduled_tokens)
        running = {request.request_id for request in scheduler.running}
        preempted = {name for name in before if name not in running}
        if not scheduled.keys().isdisjoint(preempted):
            raise Unplayable("vLLM schedules a request that it has preempted in the same step")
        cached: dict[str, int] = {}
        tokens: list[list[int]] = []
        prefill = decode = context = 0
        for name, count in scheduled.items():
            followed = self.requests[name]
            request, computed = followed.request, followed.request.num_computed_tokens
            if name not in before:
                cached[name] = computed - count
                if followed.cached is None:
                    followed.cached = computed - count
            followed.recomputed += max(0, min(computed, followed.high_water) - (computed - count))
            followed.high_water = max(followed.high_water, computed)
            completes = computed >= request.num_tokens + placeholders[name]
            tokens.append([followed.token(computed)] if completes else [])
            context += computed
            if computed - count < request.num_prompt_tokens or count > 1:
                prefill += count
            else:
                decode += count
        admitted = getattr(scheduler, "admitted", None) or list(cached)
        preempted |= {name for name in admitted if name not in scheduled}  # it came, and had to go again
        for name in preempted:
            self.requests[name].preemptions += 1
        row: Row = {
            "step": None, "start_s": self.now_s, "end_s": self.now_s, "scheduled": scheduled, "admitted": admitted,
            "preempted": dict.fromkeys(sorted(preempted), "recompute"), "swapped_in": [], "outputs": {}, "finished": [],
            "cached_tokens": cached,
        }  # fmt: skip
        seconds = self._seconds(Features(len(scheduled), prefill, decode, context))
        return planned, make_output(list(scheduled), tokens), row, seconds

    def _seconds(self, features: Features) -> float:
        """CONTRACT section 4's law, said again: the oracle shares no arithmetic with the simulator."""
        law = self.scenario.latency.fields()
        return (
            law["base_s"]
            + (law["mixed_s"] if features.prefill_tokens else 0.0)
            + law["per_seq_s"] * features.sequences
            + law["per_prefill_token_s"] * features.prefill_tokens
            + law["per_decode_token_s"] * features.decode_tokens
            + law["per_context_token_s"] * features.context_tokens
        )

    def _number(self, row: Row, end_s: float) -> None:
        row["end_s"], row["step"] = end_s, len(self.rows) + 1
        self.rows.append(row)

    def _update(self, planned: Any, output: Any, row: Row, aborted: list[str]) -> None:
        """The batch has ended: vLLM takes its tokens in."""
        told = self.scheduler.update_from_output(planned, output)
        for line in told[0].outputs if 0 in told else []:
            followed = self.requests[line.request_id]
            if line.new_token_ids:
                followed.token_times_s += [self.now_s] * len(line.new_token_ids)
                row["outputs"][line.request_id] = len(line.new_token_ids)
            if line.finish_reason is not None:
                followed.status, followed.reason = "finished", str(line.finish_reason)
                if followed.reason == "error":  # a policy has refused it
                    followed.status = "rejected"
                    continue
                row["finished"].append(line.request_id)
        row["finished"] += aborted
        manager = self.scheduler.kv_cache_manager
        tables = {name: self._table(name) for name in self.requests if name in self.scheduler.requests}
        row["block_tables"] = {name: table for name, table in tables.items() if table}
        blocks = manager.block_pool.blocks[1:]
        row["ref_counts"] = {str(block.block_id - 1): block.ref_cnt for block in blocks if block.ref_cnt}
        row["free_blocks"] = manager.block_pool.get_num_free_blocks()
        row["copies"] = []

    def _table(self, name: str) -> list[int]:
        return [block - 1 for block in self.scheduler.kv_cache_manager.get_block_ids(name)[0]]

    def _summary(self) -> Row:
        return {
            "steps": len(self.rows),
            "preemptions": sum(followed.preemptions for followed in self.requests.values()),
            "free_blocks": self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            "stall": self.stalled,
            "requests": {name: followed.told() for name, followed in self.requests.items()},
        }
