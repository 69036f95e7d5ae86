"""Lazy decoders: a decode step that touches nobody.

A decoder is a running request with exactly one pending token; each step gives it that token and it has one pending again.
All that changes is +1 for everybody, so two clocks are kept for all, and each decoder keeps only its `base`:

    launched   steps that have begun       computed  = base + launched          base is constant while it decodes
    landed     steps that have ended       generated = base + landed + 1 - prompt   (their tokens have arrived)

Synchronous scheduling plans when landed = launched; asynchronous scheduling while one step is still in flight.

A step that gives tokens to none of them (prompts alone) is no step of these clocks: they rest. Whoever comes in meanwhile is
a latecomer: its last token is later than that of the others. (Synchronous scheduling alone: no step is in flight there.)

Who needs a block in step D? Whoever has filled its blocks: computed % B == 0, that is -base % B == (D - 1) % B. So decoders
stand in a ring of B buckets by -base % B, and a hand that moves one bucket a step points at them (B = 4, the hand at 1):

       bucket 0     bucket 1     bucket 2     bucket 3
        [a e]        [b d]          [c]          [ ]
                       ^ need a block in the coming step
                                     ^ fill their last block in it, need the next one a step later

Inside a bucket they stand in running order, for that is the order in which blocks are handed out. Who ends when is written
in a calendar: step -> requests. So a decode step costs the blocks it hands out and the requests it ends.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.core.block_pool import BlockPool
    from twin.core.request import Request

by_admission = attrgetter("admission")


class Decoders:
    """All lazy decoders of one replica."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.launched = self.landed = 0
        self.known_step = 0  # base + known_step tokens were known at the last launch: so far blocks count as hashed
        self.latecomers: dict[Request, None] = {}  # came in since the others began to rest
        self.rested_since_s: float | None = None  # when the last tokens of the others came, while they rest
        self.count = 0
        self.sum_of_bases = 0
        self.last_admission = -1  # no decoder was admitted later than this
        self.ring: list[list[Request]] = [[] for _ in range(block_size)]
        self.calendar: dict[int, list[Request]] = {}
        self.days: list[int] = []  # heap of the calendar's days
        self.sharers: set[Request] = set()  # those that may yet fill a block which another request can share
        self.per_user: dict[str | None, int] | None = None  # user -> decoders; only for policies with on_step
        self.newcomers: list[Request] | None = None  # since `standing` was asked; only where that is kept

    def context_after_step(self) -> int:
        """Sum over the decoders of the context that the coming step leaves: each computed, plus one."""
        return self.sum_of_bases + self.count * (self.launched + 1)

    def sum_of_computed(self) -> int:
        return self.sum_of_bases + self.count * self.launched

    def needing_block(self) -> list[Request]:
        """Who needs a block in the coming step."""
        return self.ring[self.launched % self.block_size]

    def filling_block(self, ahead: int) -> list[Request]:
        """Who fills its last block in the step after `ahead` others."""
        return self.ring[(self.launched + ahead + 1) % self.block_size]

    def enter(self, request: Request, entered: int) -> None:
        """It decodes from here on; its first step in flight that will yield, or has yielded, is `entered`."""
        base = request.base = request.settled_computed - self.launched
        request.decoders, request.entered = self, entered
        request.placeholders = 0
        bucket = self.ring[-base % self.block_size]
        if bucket and bucket[-1].admission > request.admission:
            insort(bucket, request, key=by_admission)
        else:
            bucket.append(request)
        self._write_due(request, request.prompt_tokens + request.stop_after - 1 - base)
        self.count += 1
        self.sum_of_bases += base
        if request.admission > self.last_admission:
            self.last_admission = request.admission
        if request.shareable_blocks > request.registered_blocks:
            self.sharers.add(request)
        if self.per_user is not None:
            self.per_user[request.user] = self.per_user.get(request.user, 0) + 1
        if self.newcomers is not None:
            self.newcomers.append(request)

    def leave(self, request: Request) -> None:
        """The decoder becomes an ordinary record again."""
        self.calendar[request.due].remove(request)
        self._settle(request)

    def hashed_blocks(self, request: Request) -> int:
        """So many blocks at the front of a decoder's table are full of known tokens, hence count as hashed."""
        assert request.base is not None
        return (request.base + max(self.landed, request.entered, self.known_step)) // self.block_size

    def end_with_step(self, request: Request, step: int) -> None:
        """The engine saw an end-of-sequence: the token of that step is its last."""
        assert request.base is not None
        self.calendar[request.due].remove(request)
        request.stop_after = request.base + step + 1 - request.prompt_tokens
        self._write_due(request, step)

    def grow(self, pool: BlockPool, steps: int) -> list[int]:
        """Blocks for the next `steps` decode steps, known to be there; how many each of them takes.

        All takes may go before all registrations: a block taken may lose its hash, a block filled gains one, and which
        happens first makes no difference to who answers for that content afterwards.
        """
        buckets = self._buckets(steps) if steps > 1 else [self.needing_block()]
        takers = list(chain.from_iterable(buckets)) if steps > 1 else buckets[0]
        if takers:
            for request, block in zip(takers, pool.take(len(takers)), strict=True):
                request.block_table.append(block)
        return list(map(len, buckets))

    def register(self, pool: BlockPool, upto: int) -> None:
        """Enter the blocks that others may share, filled by tokens known when step `upto` is launched or landed."""
        for step in range(max(self.landed, self.known_step) + 1, upto + 1):
            for request in self.ring[step % self.block_size]:
                if request in self.sharers:
                    assert request.base is not None
                    pool.register(request, request.base + step)

    def next_day(self) -> int:
        """The step with which somebody ends."""
        days, calendar = self.days, self.calendar
        while not calendar[days[0]]:  # everybody due on that day has left in the meantime
            del calendar[heappop(days)]
        return days[0]

    def last_tokens_in_flight(self, least: int = 0) -> list[Request]:
        """Those whose last possible token was given in the step just launched (an end-of-sequence is not foreseen).

        `least`: only those of so many tokens, prompt and output.
        """
        due = self.calendar.get(self.launched)
        if not due:
            return []
        ends = [request for request in due if request.stop_after >= request.max_tokens]
        return [request for request in ends if request.prompt_tokens + request.max_tokens >= least] if least else ends

    def leave_landed(self) -> list[Request]:
        """Those who have all their tokens; they are settled and out."""
        ended = []
        days = self.days
        while days and days[0] <= self.landed:
            for request in self.calendar.pop(heappop(days)):
                hashed = self.hashed_blocks(request)
                self._settle(request)
                request.hashed_blocks = hashed
                ended.append(request)
        return ended

    def steps_with_blocks(self, steps: int, free_blocks: int) -> int:
        """How many of the next `steps` steps `free_blocks` are enough for."""
        if steps <= free_blocks // self.count * self.block_size:
            return steps  # a lap of the ring takes one block for each decoder
        for ahead, bucket in enumerate(self._buckets(steps)):
            free_blocks -= len(bucket)
            if free_blocks < 0:
                return ahead
        return steps

    def steps_with_tables(self, steps: int) -> int:
        """The same where tables are set aside whole: until the first decoder has filled its own."""
        for request in chain.from_iterable(self.ring):
            assert request.base is not None
            steps = min(steps, len(request.block_table) * self.block_size - request.base - self.launched)
        return steps

    def _buckets(self, steps: int) -> list[list[Request]]:
        """The buckets that the hand points at in the next `steps` steps."""
        hand = self.launched % self.block_size
        if hand + steps <= self.block_size:
            return self.ring[hand : hand + steps]
        lap = self.ring[hand:] + self.ring[:hand]
        return (lap * (steps // self.block_size + 1))[:steps]

    def _write_due(self, request: Request, day: int) -> None:
        request.due = day
        appointments = self.calendar.get(day)
        if appointments is None:
            self.calendar[day] = [request]
            heappush(self.days, day)
        else:
            appointments.append(request)

    def _settle(self, request: Request) -> None:
        base = request.base
        assert base is not None
        self.ring[-base % self.block_size].remove(request)
        self.count -= 1
        self.sum_of_bases -= base
        if self.sharers:
            self.sharers.discard(request)
        if self.per_user is not None:
            left = self.per_user[request.user] - 1
            if left:
                self.per_user[request.user] = left
            else:
                del self.per_user[request.user]
        request.settled_generated = request.generated
        request.settled_computed = base + self.launched
        request.placeholders = self.launched - max(self.landed, request.entered - 1)
        request.base = None
