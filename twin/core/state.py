"""Where everybody is, and how one gets from one place to another.

                 admit                    preempt, mode "swap"
    waiting  ------------>  running  --------------------------->  swapped
       ^                     |   ^                                    |
       +---------------------+   +------------------------------------+     swap.give_up: swapped -> waiting
         preempt "recompute"                  admit                         pauses.py: ... -> paused -> waiting or swapped

`running` is a dict for its order and its cheap removals. Each of its members is a lazy decoder, or in `prefills` (it gets
its tokens by name), or in `ending` (its last token is in flight), or was admitted by the plan that is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twin.core.batch import Aside, Batch, Transfer
from twin.core.beams import collapse
from twin.core.block_pool import BlockPool
from twin.core.by_plan import PlannedStep
from twin.core.contiguous import ContiguousPool
from twin.core.decoders import Decoders
from twin.core.errors import InvalidTransition, PolicyError
from twin.core.fork import slots_free_in_tails
from twin.core.free_queue import FreeQueuePool
from twin.core.limits import Limits, Rules, blocks_for
from twin.core.ordered import Sorted
from twin.core.prefix_cache import PrefixCachingPool
from twin.core.request import RUNNING, SWAPPED, WAITING, Request
from twin.core.standing import Standing
from twin.core.start import start
from twin.core.swap import reclaim, swap_in
from twin.core.swapped import Swapped
from twin.core.vacate import vacate
from twin.core.waiting import make_queue
from twin.policy import Policy, RequestView, SystemView


class State:
    """All that a replica's scheduler knows. Mutated by its own methods and by the modules of this package, nobody else."""

    def __init__(self, limits: Limits, policy: Policy, rules: Rules) -> None:
        self.limits, self.policy, self.rules = limits, policy, rules
        self.view = SystemView(self)
        self.pool: BlockPool = _make_pool(limits, rules)
        self.decoders = Decoders(limits.block_size)
        self.running: dict[Request, None] = {}
        self.prefills: dict[Request, None] = {}
        self.ending: dict[Request, None] = {}
        self.swapped = Swapped(Sorted(policy, self.view) if self.preemptive else None)
        self.paused: dict[Request, None] = {}  # they wait for a tool, not for the scheduler
        self.kept: dict[Request, None] = {}  # of the swapped and paused: those whose blocks are all on the device still
        self.parked_tokens = 0  # that the swapped and paused have on the device
        self.waiting = make_queue(policy, self.view)
        self.in_flight: deque[Batch] = deque()
        self.watermark_blocks = limits.watermark_blocks
        self.admissions = 0
        self.unforked_seats = 0  # seats that running requests will need when they fork
        self.table_blocks = 0  # sum of the lengths of all block tables
        self.now = 0.0
        self.last_landing_s: float | None = None  # when the last step ended
        self.plans = 0
        self.chunk_limit = 0  # this step's long_prefill_token_threshold, 0: none
        self.transfers: list[Transfer] = []  # of blocks, since the last step, in order
        self.swap_fallbacks = 0  # preemptions for which the host had no room: recomputed
        self.swaps_given_up = 0  # swapped ones that were recomputed, because nothing could come back
        self.swaps = self.keeps = 0  # preemptions by these modes
        self.keys_only_fall = False  # of a preemptive order: the key of a running request never grows
        self.largest_key: Any = None  # then: no running request's key is larger; None: not known
        self.standing: Standing | None = None  # who runs, in order, where the policy says how long keys stand
        self.may_rest = False  # lazy decoders may rest in a step, all together
        self.reordered = False  # a key of the queue has changed since the last plan
        self.cache_queries = self.cache_hits = 0  # tokens, at first admissions
        self.recompute_hits = 0  # tokens, when a preempted one resumes
        self.cheaper_mode: Callable[[Request], str] | None = None  # for preemption_mode="auto", from the cost model

    @property
    def preemptive(self) -> bool:
        """A head that was refused may take the place of running requests that come after it in the policy's order."""
        return self.policy.order is not None and (self.policy.preempts or self.rules.preempt_for_seat)

    # --- tokens and blocks

    def set_chunk_limit(self) -> None:
        """At the start of a step: a request that is alone is spared the threshold."""
        alone = len(self.running) + len(self.waiting) + len(self.swapped) == 1
        spared = alone and self.rules.threshold_spares_lone_request
        self.chunk_limit = 0 if spared else self.limits.long_prefill_token_threshold

    def chunk(self, request: Request, pending: int, budget: int) -> int:
        """How many of its pending tokens a step gives to a request that is not a lazy decoder."""
        tokens = pending
        if 0 < self.chunk_limit < tokens:
            tokens = self.chunk_limit
        if tokens > budget:
            tokens = budget
        if tokens > 1 and self.policy.chunk is not None:
            answer: Any = self.policy.chunk(request.view, tokens, self.view)
            if type(answer) is not int or not 1 <= answer <= tokens:
                raise PolicyError(f"chunk() gave request {request.id} {answer!r} tokens of {tokens} on offer")
            return answer
        return tokens

    def blocks_missing(self, request: Request, computed: int) -> int:
        """Blocks that the table lacks to hold `computed` tokens, a copy before writing among them."""
        missing = blocks_for(computed, self.limits.block_size) - len(request.block_table)
        if missing > 0 and self.pool.reserves:
            raise PolicyError(
                f"reserve() set {len(request.block_table) * self.limits.block_size} tokens aside for request "
                f"{request.id}, which has come to {computed}"
            )
        return max(0, missing) + (request.forked and self.shares_next_block(request))

    def shares_next_block(self, request: Request) -> bool:
        index = request.computed // self.limits.block_size
        table = request.block_table
        return index < len(table) and table[index] is not None and self.pool.references(table[index]) > 1

    def has_free(self, blocks: int, request: Request) -> bool:
        """So many blocks are free for the request, or come free where kept ones are taken off the device."""
        return blocks <= self.pool.num_free or (bool(self.kept) and reclaim(self, blocks, request))

    def grow(self, request: Request, computed: int) -> None:
        """Blocks for, and registration of, all that is computed when this step is done. They are known to be there."""
        pool, block_size = self.pool, self.limits.block_size
        table = request.block_table
        if request.forked:
            if self.shares_next_block(request):
                copy = pool.copy_on_write(table, request.computed // block_size)
                assert copy is not None
                self.transfers.append(Transfer("copy", *copy))
            request.forked = False
        missing = -(-computed // block_size) - len(table)
        if missing > 0:
            table += pool.take(missing)
            self.table_blocks += missing
        if pool.caches and request.base is None:
            known = min(computed, request.known_tokens)
            request.hashed_before = request.hashed_blocks
            if known >= (request.hashed_blocks + 1) * block_size:
                request.hashed_blocks = known // block_size
            if request.shareable_blocks > request.registered_blocks:
                pool.register(request, known)

    def lends(self, request: Request) -> bool:
        """Whether somebody counts already on a block that is filled by the tokens which this plan gave the request.

        Then it cannot give them back: the block would be taken for computed.
        """
        pool = self.pool
        if not pool.caches or not pool.extra_owners:
            return False
        before = request.hashed_before if request.base is None else self.decoders.hashed_blocks(request)
        return any(pool.references(block) > 1 for block in request.block_table[before : request.registered_blocks])

    def release(self, request: Request) -> None:
        """Its whole table goes back to the pool."""
        self.table_blocks -= len(request.block_table)
        self.pool.release(request, request.hashed_blocks)
        request.hashed_blocks = 0

    # --- waiting or swapped -> running

    def admit(self, request: Request, budget: int, tokens: int | None = None) -> int:
        """Take the request in if it fits, and say how many tokens it gets; 0: it has to wait.

        `tokens`: a whole-plan policy's own wish.
        """
        if request.state == SWAPPED:
            granted = swap_in(self, request, budget, tokens)
        else:
            granted = start(self, request, budget, tokens)
        if granted:
            self.admissions += 1
            request.admission = self.admissions
            request.state = RUNNING
            self.running[request] = None
            self.unforked_seats += request.samples - 1
            if request.first_scheduled_s is None:
                request.first_scheduled_s = self.now
            self.grow(request, request.settled_computed + granted)
            if self.policy.on_admit is not None:
                self.policy.on_admit(request.view, self.view)
        return granted

    def kept_back(self) -> int:
        """Blocks that an admission has to leave free."""
        return self.watermark_blocks if self.running else 0

    # --- running -> waiting or swapped

    def preempt(self, request: Request, given: int, mode: str | None = None, seat: bool = False) -> str:
        """Take the request off, with the `given` tokens that this step had promised it; say by which mode.

        `seat`: for its seat, not for its blocks; else there is no use in keeping them.
        """
        if request.state != RUNNING:
            raise InvalidTransition(f"request {request.id} is {request.state}, not running: it cannot be preempted")
        self.leave_lazy(request, given)
        if given and not self.rules.vllm_defects:
            request.hashed_blocks = min(request.hashed_blocks, request.hashed_before)
            self.pool.unregister(request, request.hashed_blocks)
        self.prefills.pop(request, None)
        self.ending.pop(request, None)
        del self.running[request]
        self.unforked_seats -= request.samples - 1
        request.preemptions += 1
        if request.beams is not None and request.beams.members:
            mode = "recompute"
            collapse(self, request.beams.members)
        self.pool.register_rest(request, request.hashed_blocks)
        mode = vacate(self, request, mode, seat)
        if self.policy.on_preempt is not None:
            self.policy.on_preempt(request.view, mode, self.view)
        return mode

    def leave_lazy(self, request: Request, given: int = 0) -> None:
        """Settle it, if it is a lazy decoder, and note in the batches in flight that it is still a member of them."""
        if request.base is None:
            return
        decoders = self.decoders
        hashed = decoders.hashed_blocks(request)
        decoders.leave(request)
        request.hashed_blocks = request.hashed_before = hashed
        if given and self.rules.vllm_defects:
            request.hashed_blocks = min(request.settled_computed + given, request.known_tokens) // self.limits.block_size
        if request.entered <= decoders.landed and request not in decoders.latecomers:
            request.last_token_s = self.last_landing_s if decoders.rested_since_s is None else decoders.rested_since_s
        for batch in self.in_flight:
            if batch.number >= request.entered:
                batch.regular -= batch.number > request.entered
                batch.asides.append(Aside(request, request.admission, yields=True, stale=False))

    # --- for policies

    def head_view(self) -> RequestView | None:
        head = self.waiting.head()
        return None if head is None else head.view

    def reorder(self, request: Request) -> None:
        if request.state in (WAITING, SWAPPED):
            (self.waiting if request.state == WAITING else self.swapped).reorder(request)
            self.reordered = True
        elif request.state == RUNNING and self.standing is not None:
            self.standing.new.append(request)
            self.reordered = True

    def swapped_head_view(self) -> RequestView | None:
        head = self.swapped.first()
        return None if head is None else head.view

    def begin_plan(self) -> PlannedStep:
        return PlannedStep(self)

    # --- for records and checks

    def held_tokens(self) -> int:
        """Tokens in the blocks that are held, shared ones counted once: slots less the empty ends of the tables."""
        block_size = self.limits.block_size
        own = self.decoders.sum_of_computed() + self.parked_tokens
        for request in self.prefills:
            own += request.settled_computed
        for request in self.ending:
            own += request.settled_computed
        held_blocks = self.pool.num_blocks - self.pool.num_free
        shared_twice = (self.table_blocks - held_blocks) * block_size
        return own - shared_twice + (slots_free_in_tails(self) if self.pool.forked else 0)

    def tables(self) -> list[Any]:
        holders = (*self.running, *self.swapped, *self.paused)
        return [[block for block in request.block_table if block is not None] for request in holders]

    def check(self) -> None:
        """The cheap invariants: free + held = N, references = table lengths, seats."""
        pool = self.pool
        assert pool.num_blocks - pool.num_free + pool.extra_owners == self.table_blocks, "references != table lengths"
        assert len(self.running) + self.unforked_seats <= self.limits.max_num_seqs, "more running than seats"


def _make_pool(limits: Limits, rules: Rules) -> BlockPool:
    if rules.allocator == "contiguous":
        if limits.enable_prefix_caching:
            raise ValueError("cache.allocator=contiguous cannot share blocks: set cache.enable_prefix_caching=false")
        return ContiguousPool(limits)
    if not rules.blank_blocks_first:
        return FreeQueuePool(limits)
    return PrefixCachingPool(limits) if limits.enable_prefix_caching else BlockPool(limits)
