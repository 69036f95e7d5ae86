"""What a policy costs: microseconds a plan at 128 running, and an event with 10 against 10,000 waiting.

Time of the processor, so it is shown and never written or asserted; `fcfs` on the same machine stands beside it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

from twin.check.result import Result, Tell
from twin.check.subject import SMALLEST, Subject
from twin.core.limits import Limits, Rules
from twin.core.request import Request
from twin.core.scheduler import Scheduler
from twin.policy import Policy
from twin.policy_assembly import assemble

RUNNING, PLANS = 128, 400
FEW, MANY = 10, 10_000  # waiting
EVENTS, MOST_S = 300, 1.5
STEEP = 10.0  # so many times dearer an event: worth a word
MODEL_LEN = 1000


def check(subject: Subject, quick: bool, tell: Tell) -> Result:
    """Times both; a queue that makes events much dearer is a finding."""
    result = Result("cost", cases=3)
    tell(f"{RUNNING} running")
    mine_us, plain_us = plan_us(subject.assembly.policy), plan_us(assemble("fcfs", {}).policy)
    result.notes.append(f"{mine_us:.0f} us a plan at {RUNNING} running (fcfs: {plain_us:.0f} us)")
    waiting = {}
    for count in (FEW, MANY):
        tell(f"{count} waiting")
        waiting[count] = event_us(subject.scenario(SMALLEST)[1], count)
    ratio = waiting[MANY] / waiting[FEW]
    told = f"{waiting[FEW]:.0f} us an event with {FEW} waiting, {waiting[MANY]:.0f} us with {MANY:,}: {ratio:.1f} times"
    result.notes.append(told)
    if ratio > STEEP:
        times = f"more than {STEEP:.0f} times as much with {MANY:,} waiting as with {FEW}"
        result.find(f"overload is dear: an event costs {times}")
    return result


def plan_us(policy: Policy) -> float:
    """A step with 128 decoding requests and nobody waiting, planned and landed without fast-forward."""
    scheduler = _scheduler(policy, RUNNING)
    for number in range(RUNNING):
        scheduler.add(_request(number, 16, PLANS + 100))
    for step in range(20):
        _step(scheduler, step)
    with _no_collector():
        started = process_time()
        for step in range(PLANS):
            _step(scheduler, 20 + step)
        return (process_time() - started) / PLANS * 1e6


def event_us(policy: Policy, waiting: int) -> float:
    """An arrival, an admission and a finish, while so many wait."""
    scheduler = _scheduler(policy, 8)
    for number in range(waiting + 8):
        scheduler.add(_request(number, 16, 1 + number % 5))
    number, step, events = waiting + 8, 0, 0
    for step in range(30):
        number += _refill(scheduler, number, _step(scheduler, step))
    with _no_collector():
        started = process_time()
        while events < EVENTS and process_time() - started < MOST_S:
            step += 1
            ended = _step(scheduler, step)
            number += _refill(scheduler, number, ended)
            events += ended
        return (process_time() - started) / max(events, 1) * 1e6


@contextmanager
def _no_collector() -> Iterator[None]:
    """As in a simulation, the collector of cycles does not come in between."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _refill(scheduler: Scheduler, number: int, ended: int) -> int:
    for place in range(ended):
        scheduler.add(_request(number + place, 16, 1 + (number + place) % 5))
    return ended


def _step(scheduler: Scheduler, step: int) -> int:
    scheduler.plan(0.05 * step)
    return len(scheduler.commit(0.05 * (step + 1)))


def _scheduler(policy: Policy, seats: int) -> Scheduler:
    limits = Limits(num_blocks=seats * 64, max_num_seqs=seats, max_model_len=MODEL_LEN)
    return Scheduler(limits, policy, Rules(allocator=policy.allocator))


def _request(number: int, prompt_tokens: int, output_tokens: int) -> Request:
    return Request(
        f"r{number}", 0.001 * number, prompt_tokens, output_tokens, index=number, user=f"user-{number % 8}",
        session=f"session-{number % 50}", priority=number % 3, deadline_s=number + 30.0, predicted_output=output_tokens,
    )  # fmt: skip
