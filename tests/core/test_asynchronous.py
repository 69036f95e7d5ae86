"""Two steps in flight: what is planned before the token of the step before is known."""

from tests.core.drive import finished_with
from twin.core import Batch, Limits, Request, Rules, Scheduler
from twin.policy import Policy


def asynchronous(*requests: Request, **limits: int) -> Scheduler:
    scheduler = Scheduler(Limits(**limits), Policy(), Rules(async_scheduling=True), name_all=True)
    for request in requests:
        assert scheduler.add(request) is None
    return scheduler


def scheduled(batch: Batch) -> dict[str, int]:
    return {request.id: tokens for request, tokens in batch.scheduled}


def check(scheduler: Scheduler) -> None:
    scheduler.state.check()
    scheduler.state.pool.check(scheduler.state.tables())


def drain(scheduler: Scheduler, now: float) -> None:
    """The driver's round, until nothing is left: plan one ahead, commit the oldest."""
    rounds = 0
    while scheduler.busy or scheduler.state.in_flight:
        if scheduler.busy and len(scheduler.state.in_flight) < 2:
            scheduler.plan(now)
        else:
            now += 1
            scheduler.commit(now)
        check(scheduler)
        rounds += 1
        assert rounds < 500
    assert scheduler.state.pool.num_free == scheduler.limits.num_blocks


def test_a_placeholder_stands_for_the_token_in_flight() -> None:
    """The second step decodes a token whose value is not known yet."""
    a = Request("a", 0, 4, 9)
    scheduler = asynchronous(a, num_blocks=9, block_size=4)
    assert scheduled(scheduler.plan(0.0)) == {"a": 4}
    assert (a.view.computed, a.view.generated, a.view.pending) == (4, 0, 1)
    assert scheduled(scheduler.plan(0.0)) == {"a": 1}
    assert (a.view.computed, a.view.generated, a.view.pending) == (5, 0, 1)
    scheduler.commit(1.0)
    assert (a.view.computed, a.view.generated) == (5, 1)
    drain(scheduler, 1.0)
    assert finished_with(a, 9)


def test_a_limit_is_foreseen() -> None:
    """The last possible token is in flight: the request is passed over, and keeps its seat and its blocks."""
    a = Request("a", 0, 4, 2)
    scheduler = asynchronous(a, num_blocks=9, block_size=4)
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    scheduler.commit(1.0)
    assert scheduler.plan(1.0).empty
    assert a.view.pending == 0 and a.view.state == "running" and a.view.blocks == 2
    assert scheduler.commit(2.0) == [a]
    assert finished_with(a, 2)


def test_an_end_of_sequence_costs_one_token_more() -> None:
    """It ends with its second token, but might have had 20: the third is computed, and dropped."""
    a = Request("a", 0, 4, 2, max_tokens=20)
    scheduler = asynchronous(a, num_blocks=9, block_size=4)
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    scheduler.commit(1.0)
    assert scheduled(scheduler.plan(1.0)) == {"a": 1}
    assert scheduler.commit(2.0) == [a]
    assert scheduler.state.pool.num_free == 9
    assert scheduler.commit(3.0) == []
    assert finished_with(a, 2) and a.finish_s == 2.0


def test_an_engine_says_which_token_was_the_last() -> None:
    a, b = Request("a", 0, 4, 9), Request("b", 0, 4, 3)
    scheduler = asynchronous(a, b, num_blocks=9, block_size=4)
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    scheduler.commit(1.0)
    scheduler.plan(1.0)
    assert scheduler.commit(2.0, stopped=[a]) == [a]
    assert finished_with(a, 2)
    drain(scheduler, 2.0)
    assert finished_with(b, 3)


def test_a_request_preempted_with_a_token_in_flight_gets_that_token() -> None:
    """eng-07: it is appended while the request waits, and is part of what is computed again."""
    a, b = Request("a", 0, 4, 6), Request("b", 0, 3, 6)
    scheduler = asynchronous(a, b, num_blocks=3, block_size=4)
    assert scheduled(scheduler.plan(0.0)) == {"a": 4, "b": 3}
    assert scheduled(scheduler.plan(0.0)) == {"a": 1, "b": 1}  # a's second block, b's fourth token
    scheduler.commit(1.0)
    third = scheduler.plan(1.0)  # b needs a second block: there is none
    assert list(third.preempted) == [b] and scheduled(third) == {"a": 1}
    assert (b.view.state, b.view.generated, b.view.computed) == ("waiting", 1, 0)
    scheduler.commit(2.0)
    assert b.view.generated == 2
    drain(scheduler, 2.0)
    assert finished_with(a, 6) and finished_with(b, 6)


def test_a_request_may_end_while_it_waits() -> None:
    """The token in flight at its preemption is its last."""
    a, b = Request("a", 0, 4, 6), Request("b", 0, 3, 2, max_tokens=9)
    scheduler = asynchronous(a, b, num_blocks=3, block_size=4)
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    scheduler.commit(1.0)
    assert list(scheduler.plan(1.0).preempted) == [b]
    assert scheduler.commit(2.0) == [b]
    assert finished_with(b, 2) and len(scheduler.state.waiting) == 0
    drain(scheduler, 2.0)


def test_it_is_not_admitted_again_before_its_old_life_has_landed() -> None:
    a, b = Request("a", 0, 4, 2), Request("b", 0, 3, 6)
    scheduler = asynchronous(a, b, num_blocks=9, block_size=4)
    scheduler.plan(0.0)
    scheduler.state.preempt(b, 0)
    assert b.stale == 1
    assert scheduled(scheduler.plan(0.0)) == {"a": 1}
    scheduler.commit(1.0)
    assert b.stale == 0 and b.view.generated == 1
    assert scheduled(scheduler.plan(1.0)) == {"b": 4}
    drain(scheduler, 1.0)
    assert finished_with(b, 6)


def test_an_abort_comes_before_the_tokens_of_the_step() -> None:
    a, b = Request("a", 0, 4, 6), Request("b", 0, 4, 6)
    scheduler = asynchronous(a, b, num_blocks=9, block_size=4)
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    assert scheduler.commit(1.0, aborted=[a]) == [a]
    assert (a.state, a.generated, a.view.blocks) == ("aborted", 0, 0)
    assert b.generated == 1 and scheduler.state.pool.num_free == 7
    scheduler.commit(2.0)
    assert a.generated == 0
    drain(scheduler, 2.0)
    assert finished_with(b, 6)


def test_only_known_tokens_are_registered() -> None:
    """Block 1 is full of launched tokens from the second plan on. Its last token is known after the first commit, but
    computed - placeholders is 7 then: it is registered at the third plan, as in vLLM."""
    a = Request("a", 0, 7, 9, block_keys=["k0", "k1", "k2"])
    scheduler = asynchronous(a, num_blocks=9, block_size=4, enable_prefix_caching=True)
    known = scheduler.state.pool.oldest  # type: ignore[attr-defined]
    scheduler.plan(0.0)
    assert set(known) == {"k0"}
    scheduler.plan(0.0)
    assert a.view.computed == 8 and set(known) == {"k0"}
    scheduler.commit(1.0)
    assert set(known) == {"k0"}
    scheduler.plan(1.0)
    assert set(known) == {"k0", "k1"}
