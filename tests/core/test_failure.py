"""A step that could not be computed: its requests fail, and nobody finds what they wrote."""

import pytest

from tests.core.drive import Drive
from twin.core import Request, Rules
from twin.core.request import ABORTED, FINISHED

KEYS = ("k0", "k1", "k2")  # of three blocks of 4 tokens


def shared(name: str, arrival_s: float = 0.0, output_tokens: int = 6) -> Request:
    return Request(name, arrival_s, 12, output_tokens, block_keys=KEYS)


def fail(drive: Drive, *requests: Request) -> list[Request]:
    drive.scheduler.plan(drive.now_s)
    drive.now_s += 1
    ended = drive.scheduler.commit(drive.now_s, failed={request: "NaN logits" for request in requests})
    drive.pool.check(drive.state.tables())
    return ended


@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_a_failed_request_gives_its_blocks_back_and_its_prefix_is_not_found(steps_before: int) -> None:
    a = shared("A")
    drive = Drive(a, num_blocks=8, block_size=4, enable_prefix_caching=True)
    drive.steps(steps_before)
    assert fail(drive, a) == [a]
    assert (a.state, a.reason, a.generated) == (ABORTED, "NaN logits", steps_before)
    assert drive.pool.num_free == 8 and drive.pool.lookup(shared("B")) == []
    b = shared("B")
    drive.scheduler.add(b)
    drive.drain()
    assert b.state == FINISHED and b.cached_tokens == 0


def test_an_aborted_request_leaves_its_prefix_to_others() -> None:
    """The difference: what an abort leaves behind was computed, and 8 of 12 tokens are found."""
    a, b = shared("A"), shared("B", 1.0)
    drive = Drive(a, num_blocks=8, block_size=4, enable_prefix_caching=True)
    drive.step()
    drive.scheduler.abort(a)
    drive.scheduler.add(b)
    drive.drain()
    assert b.cached_tokens == 8


def test_those_who_share_its_blocks_go_on_and_are_freed_in_the_end() -> None:
    a, b = shared("A"), shared("B")
    drive = Drive(a, b, num_blocks=16, block_size=4, enable_prefix_caching=True)
    drive.step()
    assert drive.pool.extra_owners == 2
    fail(drive, a)
    drive.drain()
    assert b.state == FINISHED and b.generated == 6


def test_whoever_fails_and_is_aborted_at_once_ends_once() -> None:
    a = shared("A")
    drive = Drive(a, num_blocks=8, block_size=4)
    drive.scheduler.plan(0.0)
    assert drive.scheduler.commit(1.0, aborted=[a], failed={a: "out of memory"}) == [a]
    assert drive.pool.num_free == 8


def test_an_end_of_sequence_is_a_reason_of_its_own() -> None:
    a, b = shared("A"), shared("B")
    drive = Drive(a, b, num_blocks=16, block_size=4)
    drive.step()
    drive.scheduler.plan(1.0)
    assert drive.scheduler.commit(2.0, stopped=[a]) == [a]
    drive.drain()
    assert (a.reason, a.generated, b.reason, b.generated) == ("stop", 2, "length", 6)


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_who_was_preempted_while_the_step_was_in_flight_leaves_nothing_behind_either(mode: str) -> None:
    """4 blocks of 4: A and B compute 8 tokens each; the next plan takes B's blocks for A, and then that step has failed."""
    a, b = Request("A", 0.0, 8, 6), Request("B", 0.0, 8, 6, block_keys=KEYS[:2])
    limits = {"num_blocks": 4, "num_host_blocks": 4, "block_size": 4, "enable_prefix_caching": True}
    drive = Drive(a, b, rules=Rules(mode, async_scheduling=True), **limits)
    drive.scheduler.plan(0.0)
    assert dict(drive.scheduler.plan(0.0).preempted) == {b: mode}
    assert drive.pool.lookup(shared("C")) != []
    assert set(drive.scheduler.commit(1.0, failed={a: "out of memory", b: "out of memory"})) == {a, b}
    assert drive.pool.lookup(shared("C")) == [] and drive.pool.num_free == len(drive.pool.free_host) == 4
    drive.scheduler.commit(2.0)
    assert not drive.scheduler.busy


def test_who_was_aborted_while_the_step_was_in_flight_leaves_nothing_behind_either() -> None:
    """Two chunks of 4 tokens; an abort comes with the first, and the second fails."""
    a = shared("A")
    limits = {"num_blocks": 8, "block_size": 4, "max_num_batched_tokens": 4, "enable_prefix_caching": True}
    drive = Drive(a, rules=Rules(async_scheduling=True), **limits)
    drive.scheduler.plan(0.0)
    drive.scheduler.plan(0.0)
    assert drive.scheduler.commit(1.0, aborted=[a]) == [a]
    assert drive.pool.lookup(shared("B")) != []
    assert drive.scheduler.commit(2.0, failed={a: "out of memory"}) == []
    assert drive.pool.lookup(shared("B")) == [] and (a.state, a.reason) == (ABORTED, "abort")
