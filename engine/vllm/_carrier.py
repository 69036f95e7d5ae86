"""Carries one policy through one scheduler of vLLM's: asks its hooks, and tells it what happens, as the core does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler

from engine.vllm._arrivals import Arrivals
from engine.vllm._errors import Boundary
from engine.vllm._internals import check_instance
from engine.vllm._landing import Landing
from engine.vllm._options import Twin
from engine.vllm._preemptive import Takeover, with_takeover
from engine.vllm._queue import PolicyQueue
from engine.vllm._request import Record
from engine.vllm._state import State
from twin.core.errors import PolicyError
from twin.policy import Answer


class Carrier:
    """A policy at work. The names of `State` are the core's; those of the scheduler are vLLM's."""

    def __init__(self, scheduler: Any, twin: Twin) -> None:
        check_instance(scheduler)
        self.scheduler, self.twin, self.policy = scheduler, twin, twin.policy
        policy = twin.policy
        self.preemptive = policy.order is not None and (policy.preempts or twin.preempt_for_seat)
        self.always_asks = self.preemptive or policy.pick is not None
        self.state = State(scheduler, policy, self.preemptive)
        self.view = self.state.view
        self.errors = Boundary(twin, self.state)
        self.queue = PolicyQueue(self.state, self.asks_for_head)
        self.queue.on_turn = self.has_come_in
        scheduler.waiting = self.queue
        self.takeover = Takeover(scheduler, self.state) if self.preemptive else None
        self.schedule = with_takeover(Scheduler.schedule) if self.preemptive else None
        self.admitted: list[str] = []  # in this plan
        self.has_preempted = False  # in this plan
        self.refused: Any = None  # vLLM's request that has to wait, and all behind it
        self.arrivals = Arrivals(scheduler, twin, self.state)
        self.landing = Landing(scheduler, twin, self.state)
        if self.preemptive or policy.victim is not None:
            self._watch_allocations()
        if policy.chunk is not None:
            self._put_chunk_in_place()

    @classmethod
    def of(cls, scheduler: Any, twin: Twin) -> Carrier | None:
        """None: the policy decides nothing, and wants to be told nothing."""
        return cls(scheduler, twin) if twin.has_hooks else None

    # --- a step

    @contextmanager
    def step(self) -> Iterator[None]:
        """vLLM puts a step together."""
        queue, state = self.queue, self.state
        state.begin()
        self.admitted.clear()
        for record in queue.blocked():
            if Scheduler._handle_blocked_waiting_request(self.scheduler, record.request):
                del queue.elsewhere[record]
                self.scheduler.deferred_waiting.discard(record.request)
                queue.arrive(record)
        if self.takeover is not None:
            self.takeover.begin()
        if self.policy.on_plan is not None:
            self.policy.on_plan(self.view)
        queue.planning, queue.closed, queue.head, queue.popped, queue.asked = True, False, None, None, False
        self.has_preempted = False
        try:
            yield
        finally:
            queue.planning = False
            if queue.closed:  # vLLM has put the head aside for a moment
                self.scheduler.deferred_waiting.discard(self.refused)

    def asks_for_head(self) -> bool:
        """Whether it matters now who is first in line; `pick` is asked in any case, as it is by the core."""
        scheduler = self.scheduler
        return self.always_asks or len(scheduler.running) < scheduler.max_num_active_reqs

    def may_come_in(self, request: Any) -> bool:
        """What `admit` says of the head. False: vLLM passes it over."""
        record: Record = request.twin_record
        queue = self.queue
        if self.takeover is not None and record in self.takeover.taken_off:
            return self._close(request)
        if self.policy.admit is None:
            return True
        answer: Any = self.policy.admit(record.view, self.view)
        if answer not in (Answer.ADMIT, Answer.LATER, Answer.NEVER):
            raise PolicyError(f"admit() must answer ADMIT, LATER or NEVER, not {answer!r}")
        if answer == Answer.LATER:
            return self._close(request)
        if answer == Answer.NEVER:
            queue.queue.pop(record)  # type: ignore[arg-type]
            record.rejected, record.place = True, None
            self.arrivals.fail(request, f"policy {self.twin.name} answered NEVER")
            return False
        return True

    def _close(self, request: Any) -> bool:
        self.queue.closed, self.refused = True, request
        return False

    def has_come_in(self) -> None:
        """Whom vLLM has popped since the last turn of its loop: it runs, or it was passed over."""
        record, self.queue.popped = self.queue.popped, None
        if record is None:
            return
        if record.state != "running":
            self.queue.set_aside(record)
            return
        self.state.admissions += 1
        record.admission = self.state.admissions
        self.admitted.append(record.id)
        if record.cached_at_first is None:
            record.cached_at_first = record.computed
        if self.policy.on_admit is not None:
            self.policy.on_admit(record.view, self.view)
        if self.takeover is not None:
            self.takeover.ranks.add(record)  # type: ignore[arg-type]

    def ask_for_head(self) -> None:
        """At the end of a plan: `pick` may change what a policy remembers, so it is asked as often as by the core, which
        asks for the head before it looks for seats and budget; vLLM does not where there are none."""
        queue = self.queue
        if self.policy.pick is not None and queue.queue and not (queue.asked or self.has_preempted):
            queue.queue.head()

    # --- victims

    def _watch_allocations(self) -> None:
        """At each allocation: what was cached of the request before this step, and whose blocks to take if it fails."""
        manager, state = self.scheduler.kv_cache_manager, self.state
        allocate_slots, cached, block_size = manager.allocate_slots, state.manager.num_cached_block, state.limits.block_size
        chooses = self.policy.victim is not None

        def allocate(request: Any, *args: Any, num_new_computed_tokens: int = 0, **options: Any) -> Any:
            running, record = request.status.name == "RUNNING", request.twin_record
            hits = num_new_computed_tokens // block_size
            record.cached_before = cached.get(request.request_id, 0) if running else hits
            record.allocated_in = state.plans
            blocks = allocate_slots(request, *args, num_new_computed_tokens=num_new_computed_tokens, **options)
            if blocks is None and running and chooses:
                self._name_victim()
            return blocks

        manager.allocate_slots = allocate
        if chooses:  # vLLM takes off the request of the lowest priority, if it is told to go by priority
            self.scheduler.policy = SchedulingPolicy.PRIORITY

    def _name_victim(self) -> None:
        running = self.scheduler.running
        assert self.policy.victim is not None
        chosen = self.policy.victim([request.twin_record.view for request in running], self.view)
        for request in running:
            if request.twin_record.view is chosen:
                request.priority = 1  # all others have 0
                return
        raise PolicyError(f"victim() chose {chosen!r}, which is not one of the running requests")

    def gives_back(self, request: Any) -> None:
        """It is about to be preempted. The tokens that this step had given it are not computed: the blocks that they would
        have filled must not be found by others. (vLLM lets them be found: docs/vllm.md.)"""
        record: Record = request.twin_record
        request.priority, self.has_preempted = 0, True
        if empty := {block.block_id for block in self.state.filled_now(record)}:
            self.scheduler.kv_cache_manager.block_pool.evict_blocks(empty)

    def preempted(self, request: Any) -> None:
        if self.policy.on_preempt is not None:
            self.policy.on_preempt(request.twin_record.view, "recompute", self.view)

    def take_seat(self, *given: Any) -> int | None:
        head = self.queue.head
        return None if head is None or self.takeover is None else self.takeover.take_seat(head, given)

    def take_blocks(self, *given: Any) -> int | None:
        head = self.queue.head
        return None if head is None or self.takeover is None else self.takeover.take_blocks(head, given)

    # --- chunks

    def _put_chunk_in_place(self) -> None:
        scheduler, policy, view = self.scheduler, self.policy, self.view
        reserve = scheduler._reserve_prefill_lookahead

        def chunk(request: Any, computed: int, tokens: int) -> int:
            offered: int = reserve(request, computed, tokens)
            if offered <= 1:
                return offered
            assert policy.chunk is not None
            answer: Any = policy.chunk(request.twin_record.view, offered, view)
            if type(answer) is not int or not 1 <= answer <= offered:
                raise PolicyError(f"chunk() gave request {request.request_id} {answer!r} tokens of {offered} on offer")
            return answer

        scheduler._reserve_prefill_lookahead = chunk
