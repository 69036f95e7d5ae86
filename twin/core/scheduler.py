"""The scheduler: four verbs around one state.

    plan(now) -> Batch             one step, any policy; it is launched: `computed` advances     engine and simulator
    commit(now, ...) -> ended      the oldest step in flight has ended: its tokens arrive        engine and simulator
    horizon() -> k                 so many pure decode steps are certain to follow; 0: plan()    simulator
    advance(k, now, ...)           those k steps at once                                         simulator

It knows no clock and no device: time is an argument. Synchronous scheduling commits each step before it plans the next,
asynchronous scheduling (`rules.async_scheduling`) plans one ahead; the difference is the driver's, the verbs are the same.

A stretch of k steps ends before whatever could make a plan differ from "one token for each decoder": a finish, a shortage
of blocks, or a block that the refused head of the queue could share. (The caller ends it before an arrival or an abort.)
`refusal` remembers why the head was refused; admission.py says why it need not be asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from operator import mul

from twin.core import pauses
from twin.core.admission import NO_ROOM, NO_SEAT, admit_heads, order_may_help, steps_before_head_can_share
from twin.core.batch import Batch, Yields
from twin.core.errors import IllegalPlan, PolicyError
from twin.core.landing import Landing
from twin.core.limits import Limits, Rules
from twin.core.request import FINISHED, REJECTED, WAITING, Request
from twin.core.reservation import why_never_reserved
from twin.core.state import State
from twin.core.step import shortcut, walk
from twin.core.swap import move_ahead
from twin.policy import Plan, Policy

EVERY_BLOCK = EVER = 1 << 60


class Scheduler:
    """One replica's scheduler. `state` is open to read; only the verbs change it."""

    def __init__(
        self, limits: Limits, policy: Policy, rules: Rules | None = None, literal: bool = False, name_all: bool = False
    ) -> None:
        """`literal`: only the definition, for tests: every step is walked, every full block registered at once.

        `name_all`: each batch lists in `scheduled` who gets how much, at a cost of O(running) a step.
        """
        self.limits, self.policy, self.rules = limits, policy, rules or Rules()
        self.literal, self.name_all = literal, name_all
        self.state = State(limits, policy, self.rules)
        self.state.may_rest = not (literal or self.rules.async_scheduling)
        if policy.on_step is not None:
            self.state.decoders.per_user = {}
        self.refusal: str | None = None
        self.must_ask = True  # schedule() has to be asked before the next fast-forward
        # A preemptive order may come to set a running request behind one that waits, while nothing else happens.
        says_steady = any("steady" in vars(kind) for kind in type(policy).__mro__[:-2])
        self.keys_may_cross = policy.preempts and not says_steady and policy.steady_steps is None
        always = policy.steady and policy.steady_steps is None and policy.steady_until is None
        self.state.keys_only_fall = policy.preempts and says_steady and always and not literal
        # When a plan has to be made, as the policy said with the last: at this time, seconds; before this decode step.
        self.steady_until_s, self.steady_until_step = inf, EVER
        self.landing = Landing(self.state)
        self.paused_now: list[Request] = []  # who began to pause with the last step or stretch
        self.held = (0, 0, 0)  # of the last stretch: most blocks held in a step, blocks summed over its steps, tokens

    @property
    def busy(self) -> bool:
        return bool(self.state.running or self.state.waiting or self.state.swapped)

    def add(self, request: Request) -> str | None:
        """A request arrives; the reason if it is rejected."""
        state, limits = self.state, self.limits
        request.pool = state.pool
        all_prompts = request.prompt_tokens + request.tokens_to_return
        reason = limits.why_never(all_prompts, request.max_tokens, request.samples)
        if reason is None and state.pool.reserves:
            reason = why_never_reserved(state, request)
        if reason is not None:
            request.state, request.reason = REJECTED, reason
            return reason
        if request.samples > 1:
            request.id = f"{request.id}.0"
            request.own_from = request.prompt_tokens // limits.block_size
        request.state = WAITING
        request.max_tokens = min(request.max_tokens, limits.max_model_len - all_prompts)
        request.face_next_pause(min(request.end_after, request.max_tokens))
        if self.literal:
            request.shareable_blocks = EVERY_BLOCK
        state.now = max(state.now, request.arrival_s)
        if self.policy.on_arrival is not None:
            self.policy.on_arrival(request.view, state.view)
        self.must_ask = True
        if state.waiting.push(request) and (self.refusal is not NO_SEAT or state.preemptive):
            self.refusal = None
        if self.policy.on_wait is not None:
            self.policy.on_wait(request.view, state.view)
        return None

    def resume(self, request: Request) -> None:
        """The pause of a request is over."""
        assert request.resumes_s is not None
        self.state.now = max(self.state.now, request.resumes_s)
        self.refusal, self.must_ask = None, True
        pauses.resume(self.state, request, every_block_shared=self.literal)

    # --- one step

    def plan(self, now: float) -> Batch:
        """Decide the next step, and launch it."""
        state = self.state
        state.now = now
        state.plans += 1
        state.copies, state.blocks_in, state.blocks_out = [], 0, 0
        if state.decoders.count and self.rules.async_scheduling:
            for request in state.decoders.last_tokens_in_flight():
                state.leave_lazy(request)
                state.ending[request] = None
        if self.policy.on_plan is not None:
            self.policy.on_plan(state.view)
        self.refusal = None
        self.steady_until_s, self.steady_until_step = inf, EVER
        state.reordered = False
        batch = self._by_policy() if self.policy.schedule is not None else self._by_rules()
        if (
            self.policy.background is not None
            and state.swapped
            and (batch.chunks or (state.decoders.count and not batch.rests))
        ):
            move_ahead(state, self.policy.background(state.view))
        if self.refusal is not None or (self.policy.schedule is not None and not self.must_ask):
            self._ask_how_long_steady()
        batch.copies = state.copies
        batch.swapped_in_blocks, batch.swapped_out_blocks = state.blocks_in, state.blocks_out
        self._launch(batch)
        state.check()
        return batch

    def _by_policy(self) -> Batch:
        state = self.state
        assert self.policy.schedule is not None
        plan = self.policy.schedule(state.view)
        if not isinstance(plan, Plan):
            raise IllegalPlan(f"schedule() must return a Plan, not {plan!r}")
        batch = plan._step.batch()
        self.must_ask = bool(batch.chunks or batch.preempted or batch.rejected or state.prefills or state.ending)
        if (state.waiting or state.swapped) and not self.must_ask:
            self.refusal = NO_ROOM
        return batch

    def _by_rules(self) -> Batch:
        state = self.state
        state.set_chunk_limit()
        batch = None if self.literal else shortcut(state)
        if batch is None:
            batch = walk(state)
        if not batch.preempted and (state.waiting or state.swapped):
            aside = self._set_stale_aside() if state.in_flight and self.policy.pick is None else ()
            refusal = admit_heads(state, batch) if state.waiting or state.swapped else NO_ROOM
            for request in reversed(aside):
                state.waiting.push_front(request)
            if batch.preempted:  # for the head: swapped ones were not asked in this step
                return batch
            if refusal is NO_SEAT or (not batch.chunks and not order_may_help(state)):
                self.refusal = refusal
        return batch

    def _set_stale_aside(self) -> list[Request]:
        """Heads with tokens of an ended life in flight are passed over for now."""
        waiting, aside = self.state.waiting, []
        while (head := waiting.head()) is not None and head.stale:
            aside.append(head)
            waiting.pop(head)
        return aside

    def _launch(self, batch: Batch) -> None:
        """What the batch computes counts as computed from here on."""
        state, decoders = self.state, self.state.decoders
        if self.name_all:
            batch.name_all()
        state.in_flight.append(batch)
        if not batch.chunks and (batch.rests or not decoders.count):
            return
        batch.features = batch.measure()
        if batch.rests:
            if decoders.rested_since_s is None:
                decoders.rested_since_s = state.last_landing_s
        else:
            self._tick(batch)
        batch.number = decoders.launched
        self.landing.launch(batch)

    def _tick(self, batch: Batch) -> None:
        """All lazy decoders have their token of this batch."""
        decoders = self.state.decoders
        batch.regular = decoders.count
        if decoders.latecomers:
            batch.latecomers = [late for late in decoders.latecomers if late.base is not None]
            batch.regular -= len(batch.latecomers)
        if self.policy.on_step is not None:
            assert decoders.per_user is not None
            batch.by_user = dict(decoders.per_user)
        decoders.known_step = decoders.landed + 1
        decoders.launched += 1

    def commit(self, now: float, stopped: Iterable[Request] = (), aborted: Sequence[Request] = ()) -> list[Request]:
        """The oldest step in flight has ended. Returns those who ended with it, in the order of that step.

        `stopped` saw an end-of-sequence token in this step (an engine knows); `aborted` ones lose the step's token, and
        come last. Who pauses from here on stands in `paused_now`.
        """
        state, decoders = self.state, self.state.decoders
        batch = state.in_flight.popleft()
        self.paused_now = []
        for request in aborted:
            self._abort(request, batch)
        if not batch.number:
            return list(aborted)
        for request in stopped:
            self.landing.stop(batch, request)
        if decoders.sharers:
            decoders.register(state.pool, batch.number)
        decoders.landed = batch.number
        state.now = max(state.now, now)
        if self.policy.on_step is not None:
            self.policy.on_step(state.view, Yields(batch.by_user, decoders, batch), 1)
        ended = self.landing.land(batch, now)
        if not batch.rests:
            decoders.rested_since_s, decoders.latecomers = None, {}
        state.last_landing_s = now
        if ended:
            ended = self._finish(ended, now)
        return [*ended, *aborted] if aborted else ended

    def abort(self, request: Request) -> None:
        """A request is given up while no step is due to end: it waits, or all that runs has landed."""
        self._abort(request, None)

    def _abort(self, request: Request, batch: Batch | None) -> None:
        self.landing.abort(request, batch)
        self.refusal, self.must_ask = None, True
        if self.policy.on_finish is not None:
            self.policy.on_finish(request.view, self.state.view)

    def _finish(self, requests: list[Request], now: float) -> list[Request]:
        """They have come to their end, or to a pause; returns those who have ended."""
        self.refusal, self.must_ask = None, True
        on_finish = self.policy.on_finish
        for request in requests:
            if request.pauses:
                pauses.begin(self.state, request, now)
                self.paused_now.append(request)
                continue
            self.landing.finish(request, now)
            if on_finish is not None:
                on_finish(request.view, self.state.view)
        return [request for request in requests if request.state == FINISHED] if self.paused_now else requests

    # --- many steps

    def horizon(self) -> int:
        """How many of the coming steps are certain to be one token for each decoder and nothing else. 0: ask plan().

        Whatever it says, a step that begins at `steady_until_s` or later has to be planned.
        """
        state, decoders, policy = self.state, self.state.decoders, self.policy
        if state.prefills or state.ending or not decoders.count or not policy.steady or state.reordered:
            return 0
        if decoders.rested_since_s is not None:
            return 0
        somebody_waits = bool(state.waiting or state.swapped)
        if (self.refusal is None or self.keys_may_cross) and somebody_waits:
            return 0
        if (policy.schedule is not None and self.must_ask) or decoders.count > self.limits.max_num_batched_tokens:
            return 0
        if policy.background is not None and state.swapped:
            return 0
        if self.rules.async_scheduling and not self._flight_is_uniform():
            return 0
        steps = decoders.next_day() - decoders.launched
        if not state.pool.reserves:
            steps = decoders.steps_with_blocks(steps, state.pool.num_free)
        elif policy.reserve is not None:
            steps = decoders.steps_with_tables(steps)
        if decoders.sharers and self.refusal is NO_ROOM and (not state.swapped or state.preemptive or policy.schedule):
            if self.rules.async_scheduling:
                return 0
            steps = steps_before_head_can_share(state, steps)
        return max(0, min(steps, self.steady_until_step - decoders.launched))

    def _ask_how_long_steady(self) -> None:
        """What the policy says of how long the decisions of the plan just made stand."""
        policy, view = self.policy, self.state.view
        if policy.steady_until is not None:
            until_s = policy.steady_until(view)
            if not isinstance(until_s, (int, float)):
                raise PolicyError(f"steady_until() must return seconds, not {until_s!r}")
            self.steady_until_s = until_s
        if policy.steady_steps is not None:
            steps = policy.steady_steps(view)
            if not isinstance(steps, int):
                raise PolicyError(f"steady_steps() must return a number of steps, not {steps!r}")
            self.steady_until_step = self.state.decoders.launched + steps

    def _flight_is_uniform(self) -> bool:
        """One step is in flight, and each lazy decoder has one token of it, and nobody else has."""
        flight = self.state.in_flight
        if len(flight) != 1:
            return False
        batch = flight[0]
        count = self.state.decoders.count
        moves = batch.swapped_in_blocks or batch.swapped_out_blocks
        if batch.features is None or batch.chunks or batch.asides or batch.preempted or moves:
            return False
        return batch.regular == count == batch.features.sequences

    def advance(self, steps: int, now: float) -> list[Request]:
        """`steps` <= horizon() decode steps at once, the last of which ends at `now`. Returns those who end with it.

        Who pauses from here on stands in `paused_now`.

        Asynchronous: `steps` are launched and as many have ended, the last of these at `now`; one remains in flight.
        """
        state, decoders = self.state, self.state.decoders
        pool = state.pool
        landing = steps - 1 if self.rules.async_scheduling else steps  # of those launched here
        blocks, tokens = pool.num_blocks - pool.num_free, state.held_tokens()
        taken = [0] if pool.reserves else decoders.grow(pool, steps)
        state.table_blocks += sum(taken)
        self.held = (
            blocks + sum(taken[:landing]),
            blocks * landing + sum(map(mul, taken, range(landing, 0, -1))),
            tokens * landing + decoders.count * landing * (landing + 1) // 2,
        )
        if decoders.sharers:
            decoders.register(pool, decoders.landed + steps)
        decoders.launched += steps
        decoders.landed += steps
        decoders.known_step = decoders.landed
        if self.rules.async_scheduling:
            state.in_flight[0].number = decoders.launched
        state.last_landing_s = now
        self.paused_now = []
        state.now = max(state.now, now)
        if self.policy.on_step is not None:
            assert decoders.per_user is not None
            self.policy.on_step(state.view, Yields(dict(decoders.per_user), decoders), steps)
        if decoders.days[0] > decoders.landed:
            return []
        return self._finish(self.landing.leave_landed(), now)
