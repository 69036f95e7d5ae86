"""Requests that are given up, in every state."""

from collections.abc import Callable

import pytest

from tests.core.drive import Drive, finished_with
from twin.core import Request, Rules


def running(drive: Drive, request: Request) -> None:
    drive.step()


def mid_chunk(drive: Drive, request: Request) -> None:
    drive.step()
    assert request.view.pending > 1


def swapped(drive: Drive, request: Request) -> None:
    drive.step()
    drive.state.preempt(request, 0, "swap")


def preempted(drive: Drive, request: Request) -> None:
    drive.step()
    drive.state.preempt(request, 0)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize(
    "phase, prompt", [(lambda drive, request: None, 9), (running, 9), (mid_chunk, 30), (swapped, 9), (preempted, 9)]
)
def test_all_it_holds_is_free_at_once(phase: Callable, prompt: int, caching: bool) -> None:
    other, request = Request("other", 0, 5, 9), Request("a", 0, prompt, 9)
    limits = dict(block_size=4, num_host_blocks=9, max_num_batched_tokens=20)
    drive = Drive(other, request, rules=Rules(), num_blocks=32, enable_prefix_caching=caching, **limits)
    phase(drive, request)
    drive.scheduler.abort(request)
    assert (request.state, request.view.blocks, len(drive.pool.free_host)) == ("aborted", 0, 9)
    drive.pool.check(drive.state.tables())
    drive.drain()
    assert finished_with(other, 9)


def test_a_token_of_the_step_under_way_is_dropped() -> None:
    request, other = Request("a", 0, 4, 9), Request("b", 0, 4, 9)
    drive = Drive(request, other, num_blocks=9, block_size=4)
    drive.steps(2)
    drive.scheduler.plan(2.0)
    assert drive.scheduler.commit(3.0, aborted=[request]) == [request]
    assert (request.state, request.reason, request.generated, other.generated) == ("aborted", "abort", 2, 3)
    drive.drain()


def test_an_abort_makes_room_for_the_head() -> None:
    hog, waiting = Request("hog", 0, 8, 99, max_tokens=9), Request("b", 0, 12, 1)
    drive = Drive(hog, waiting, num_blocks=4, block_size=4)
    drive.steps(2)
    drive.scheduler.abort(hog)
    assert drive.step().admitted == ["b"]


def test_samples_that_never_forked_give_back_their_seats() -> None:
    request, other = Request("a", 0, 30, 9, samples=3), Request("b", 0, 4, 1)
    drive = Drive(request, other, num_blocks=99, max_num_seqs=3, max_num_batched_tokens=20)
    drive.step()
    drive.scheduler.abort(request)
    assert drive.state.unforked_seats == 0
    assert drive.step().scheduled == {"b": 4}
