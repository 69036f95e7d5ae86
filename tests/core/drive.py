"""A scheduler driven by hand, synchronously, one second a step: what a test can follow on paper."""

from typing import Any, NamedTuple

from twin.core import Limits, Request, Rules, Scheduler
from twin.core.request import FINISHED
from twin.policy import Policy


class Step(NamedTuple):
    """A step that has been done."""

    end_s: float
    scheduled: dict[str, int]  # tokens, in running order
    admitted: list[str]
    preempted: dict[str, str]
    ended: list[str]
    copies: list[tuple[int, int]]
    during_blocks: int  # held while it ran


class Drive:
    """The scheduler, its requests and its clock. Each step checks the pool's invariants."""

    def __init__(self, *requests: Request, policy: Policy | None = None, rules: Rules | None = None, **limits: Any) -> None:
        self.scheduler = Scheduler(Limits(**limits), policy or Policy(), rules, name_all=True)
        self.state, self.pool = self.scheduler.state, self.scheduler.state.pool
        self.now_s = 0.0
        for request in requests:
            assert self.scheduler.add(request) is None

    def step(self) -> Step:
        batch = self.scheduler.plan(self.now_s)
        during_blocks = self.pool.num_blocks - self.pool.num_free
        self.pool.check(self.state.tables())
        if not batch.empty:
            self.now_s += 1
        ended = self.scheduler.commit(self.now_s)
        self.pool.check(self.state.tables())
        return Step(
            self.now_s,
            {request.id: tokens for request, tokens in batch.scheduled},
            [request.id for request in batch.admitted],
            {request.id: mode for request, mode in batch.preempted.items()},
            [request.id for request in ended],
            batch.copies,
            during_blocks,
        )

    def steps(self, count: int) -> list[Step]:
        return [self.step() for _ in range(count)]

    def drain(self) -> list[Step]:
        """Steps until nobody is left; afterwards every block is free."""
        steps = []
        while self.scheduler.busy:
            assert len(steps) < 1000, "it does not come to an end"
            steps.append(self.step())
        assert self.pool.num_free == self.pool.num_blocks
        assert len(self.pool.free_host) == self.scheduler.limits.num_host_blocks
        return steps


def finished_with(request: Request, generated: int) -> bool:
    return request.state == FINISHED and request.generated == generated


def scheduled(steps: list[Step]) -> list[dict[str, int]]:
    return [step.scheduled for step in steps]
