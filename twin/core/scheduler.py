"""The scheduler: four verbs around one state.

    plan(now) -> Batch             one step, any policy; it is launched: `computed` advances     engine and simulator
    commit(now, ...) -> ended      the oldest step in flight has ended: its tokens arrive        engine and simulator
    horizon() -> k                 so many pure decode steps are certain to follow; 0: plan()    simulator
    advance(k, now, ...)           those k steps at once                                         simulator

It knows no clock and no device: time is an argument. Synchronous scheduling commits each step before it plans the next,
asynchronous scheduling (`rules.async_scheduling`) plans one ahead; the difference is the driver's, the verbs are the same.

A stretch of k steps ends before whatever could make a plan differ from "one token for each decoder": a finish, a shortage
of blocks, or a block that the refused head of the queue could share (stretch.py). The caller ends it before an arrival or
an abort. `refusal` remembers why the head was refused; admission.py says why it need not be asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from twin.core import pauses
from twin.core.admission import NO_ROOM, NO_SEAT, admit_heads, order_may_help, set_stale_aside
from twin.core.batch import NOBODY, Batch, Yields
from twin.core.errors import IllegalPlan
from twin.core.landing import Landing
from twin.core.limits import Limits, Rules
from twin.core.request import ENDED, FINISHED, PAUSED, REJECTED, WAITING, Request
from twin.core.reservation import why_never_reserved
from twin.core.standing import Standing
from twin.core.state import State
from twin.core.step import shortcut, walk
from twin.core.stretch import EVER, decode_steps, how_long_steady, pass_steps
from twin.core.swap import move_ahead
from twin.policy import Plan, Policy, declares_steady

Failed = Mapping[Request, str]
Decided = tuple[Batch, str | None]  # a step, and why the head of the queue was refused: then it stays refused
EVERY_BLOCK = 1 << 60
GONE = (*ENDED, PAUSED)  # who has no part in any step to come


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
        if self.state.preemptive and policy.key_steps is not None and not literal:
            self.state.standing = Standing(self.state)
        self.state.may_rest = not (literal or self.rules.async_scheduling or self.state.standing)
        if policy.on_step is not None:
            self.state.decoders.per_user = {}
        self.refusal: str | None = None
        self.must_ask = True  # schedule() has to be asked before the next fast-forward
        # A preemptive order may come to set a running request behind one that waits, while nothing else happens.
        said = declares_steady(policy)
        self.keys_may_cross = policy.preempts and not (said or policy.steady_steps or self.state.standing)
        always = policy.steady and policy.steady_steps is None and policy.steady_until is None
        self.state.keys_only_fall = policy.preempts and said and always and not literal
        # When a plan has to be made, as the policy said with the last: at this time, seconds; before this decode step.
        self.steady_until_s, self.steady_until_step = inf, EVER
        self.landing = Landing(self.state)
        # tokens of prompt and output at which the last token is known to be the last before it has come
        self.foreseen_from = 0 if self.rules.foresee_last_token else limits.max_model_len
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
        if reason is None and request.beams is not None and self.rules.async_scheduling:
            reason = "beam search needs synchronous scheduling: scheduler.async_scheduling=false"
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
        if state.decoders.count and self.rules.async_scheduling:
            for request in state.decoders.last_tokens_in_flight(self.foreseen_from):
                state.leave_lazy(request)
                state.ending[request] = None
        if self.policy.on_plan is not None:
            self.policy.on_plan(state.view)
        self.steady_until_s, self.steady_until_step = inf, EVER
        state.reordered = False
        batch, self.refusal = self._by_policy() if self.policy.schedule is not None else self._by_rules()
        if self.policy.background is not None and state.swapped and batch.computes:
            move_ahead(state, self.policy.background(state.view))
        if self.refusal is not None or (self.policy.schedule is not None and not self.must_ask):
            self.steady_until_s, steps = how_long_steady(state)
            self.steady_until_step = state.decoders.launched + steps
        if state.transfers and (batch.computes or batch.preempted):
            batch.transfers, state.transfers = state.transfers, []
        if self.name_all:
            batch.name_all()
        self.landing.launch(batch)
        state.check()
        return batch

    def _by_policy(self) -> Decided:
        state = self.state
        assert self.policy.schedule is not None
        kept = len(state.kept)
        plan = self.policy.schedule(state.view)
        if not isinstance(plan, Plan):
            raise IllegalPlan(f"schedule() must return a Plan, not {plan!r}")
        batch = plan._step.batch()
        self.must_ask = bool(batch.chunks or batch.preempted or batch.rejected or state.prefills or state.ending)
        self.must_ask |= len(state.kept) < kept  # blocks came free, maybe after somebody was refused
        return batch, NO_ROOM if (state.waiting or state.swapped) and not self.must_ask else None

    def _by_rules(self) -> Decided:
        state = self.state
        state.set_chunk_limit()
        batch = None if self.literal else shortcut(state)
        if batch is None:
            batch = walk(state)
        refusal = None
        if not batch.preempted and (state.waiting or state.swapped):
            aside = set_stale_aside(state) if state.in_flight and self.policy.pick is None else ()
            refusal = admit_heads(state, batch) if state.waiting or state.swapped else NO_ROOM
            for request in reversed(aside):
                state.waiting.push_front(request)
            if batch.preempted:  # for the head: swapped ones were not asked in this step
                refusal = None
            elif refusal is not NO_SEAT and (batch.chunks or order_may_help(state)):
                refusal = None
        return batch, refusal

    def commit(
        self, now: float, stopped: Iterable[Request] = (), aborted: Sequence[Request] = (), failed: Failed = NOBODY
    ) -> list[Request]:
        """The oldest step in flight has ended. Returns those who ended with it, in the order of that step.

        `stopped` saw an end-of-sequence token in this step (an engine knows); `aborted` ones lose the step's token, and
        come last, as do those who `failed` in it (-> the reason): what was computed of them is not to be shared. Who
        pauses from here on stands in `paused_now`.
        """
        state, decoders = self.state, self.state.decoders
        batch = state.in_flight.popleft()
        self.paused_now = []
        if failed:
            aborted = [*aborted, *self._fail(failed, aborted)]
        for request in aborted:
            self.abort(request, batch, failed.get(request))
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

    def abort(self, request: Request, batch: Batch | None = None, failure: str | None = None) -> None:
        """A request is given up: with the batch that has just ended, or while no step is due to end.

        `failure`: why nothing that was computed of it may be shared any more.
        """
        self.landing.abort(request, batch, failure)
        self.refusal, self.must_ask = None, True
        if self.policy.on_finish is not None:
            self.policy.on_finish(request.view, self.state.view)

    def _fail(self, failed: Failed, aborted: Sequence[Request]) -> list[Request]:
        """Who is given up. Of those who have ended since the step was launched, or pause, its blocks are not found again."""
        gone = [request for request in failed if request.state in GONE]
        for request in gone:
            self.state.pool.disown(request)
        return [request for request in failed if request not in aborted and request not in gone]

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
        state, policy = self.state, self.policy
        if not policy.steady or state.reordered or (policy.schedule is not None and self.must_ask):
            return 0
        if (state.waiting or state.swapped) and (self.refusal is None or self.keys_may_cross):
            return 0
        if state.transfers:  # of those who have begun to pause: the next step has to make them
            return 0
        if policy.background is not None and state.swapped:
            return 0
        steps = decode_steps(state, refused_for_room=self.refusal is NO_ROOM)
        return max(0, min(steps, self.steady_until_step - state.decoders.launched))

    def advance(self, steps: int, now: float) -> list[Request]:
        """`steps` <= horizon() decode steps at once, the last of which ends at `now`. Returns those who end with it.

        Who pauses from here on stands in `paused_now`. Asynchronous: as many are launched as end, and one stays in flight.
        """
        state, decoders = self.state, self.state.decoders
        self.held = pass_steps(state, steps, now)
        self.paused_now = []
        if self.policy.on_step is not None:
            assert decoders.per_user is not None
            self.policy.on_step(state.view, Yields(dict(decoders.per_user), decoders), steps)
        if decoders.days[0] > decoders.landed:
            return []
        return self._finish(self.landing.leave_landed(), now)
