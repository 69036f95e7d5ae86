"""Beams on paper: blocks of 4 tokens; a prompt of 6 that forks into beams, one second a step."""

import pytest

from tests.core.drive import Drive, scheduled
from twin.core import Request, Rules
from twin.core.beams import Beams
from twin.core.request import FINISHED, REJECTED
from twin.policy import Plan, Policy


class Search:
    """Says in turn what it was given: parents, step by step; at the end that nobody lives on."""

    def __init__(self, *parents: list[int]) -> None:
        self.parents, self.turn, self.restarts = parents, 0, 0

    def choose(self, members: list[Request]) -> list[int]:
        self.turn += 1
        return self.parents[self.turn - 1] if self.turn <= len(self.parents) else []

    def restart(self, others: list[Request]) -> None:
        self.turn = 0
        self.restarts += 1


def beam_request(search: Search, width: int = 2, name: str = "A", output_tokens: int = 9, prompt: int = 6) -> Request:
    request = Request(name, 0, prompt, output_tokens, samples=width)
    request.beams = Beams(search.choose, search.restart)
    return request


def tables(drive: Drive) -> dict[str, list[int]]:
    return {request.id: list(request.block_table) for request in drive.state.running}


def test_both_beams_continue_the_second_one() -> None:
    """The fork shares blocks 0 and 1; A.0 copies block 1 to 2 before it writes; both go on from A.1, and 2 is free again."""
    search = Search([0, 0], [1, 1], [0, 1])
    drive = Drive(beam_request(search), num_blocks=8, block_size=4)
    drive.step()
    assert tables(drive) == {"A.0": [0, 1], "A.1": [0, 1]}
    step = drive.step()
    assert step.scheduled == {"A.0": 1, "A.1": 1} and step.copies == [(1, 2)]
    assert tables(drive) == {"A.0": [0, 1], "A.1": [0, 1]}
    assert drive.pool.references(0) == drive.pool.references(1) == 2 and drive.pool.num_free == 6
    drive.step()
    drive.drain()
    assert search.turn == 4


def test_a_search_that_is_over_ends_all_its_beams() -> None:
    drive = Drive(a := beam_request(Search([0, 0], [0, 1])), num_blocks=8, block_size=4)
    steps = drive.drain()
    assert len(steps) == 3 and steps[-1].ended == ["A.0", "A.1"]
    assert (a.state, a.generated) == (FINISHED, 3)


def test_max_tokens_end_a_search_that_would_go_on() -> None:
    drive = Drive(beam_request(Search(*[[0, 1]] * 9), output_tokens=4), num_blocks=8, block_size=4)
    assert [step.ended for step in drive.drain()] == [[], [], [], ["A.0", "A.1"]]


def test_fewer_beams_may_live_on() -> None:
    drive = Drive(beam_request(Search([0, 0, 0], [2], [0]), width=3), num_blocks=12, block_size=4)
    assert [step.ended for step in drive.drain()] == [[], ["A.1", "A.2"], [], ["A.0"]]


def test_a_beam_that_has_no_budget_is_waited_for_and_nobody_is_computed_twice() -> None:
    """A budget of 1 token: two steps for each token of the two beams."""
    search = Search([0, 0], [1, 0], [1, 1])
    drive = Drive(a := beam_request(search, prompt=1), num_blocks=8, block_size=4, max_num_batched_tokens=1)
    steps = drive.drain()
    assert scheduled(steps) == [{"A.0": 1}] + [{"A.0": 1}, {"A.1": 1}] * 3
    assert a.generated == 4 and search.turn == 4


@pytest.mark.parametrize("caching", [False, True])
def test_a_preempted_beam_takes_the_others_with_it_and_the_search_begins_again(caching: bool) -> None:
    """5 blocks: in the second step B, which came first, takes the last one, and A.0 wants to copy one before it writes."""
    search = Search(*[[0, 1]] * 5)
    b = Request("B", 0, 8, 9)
    drive = Drive(b, a := beam_request(search, output_tokens=4), num_blocks=5, block_size=4, enable_prefix_caching=caching)
    steps = drive.drain()
    lost = [step for step in steps if step.preempted]
    assert lost[0] is steps[1] and lost[0].scheduled == {"B": 1}
    assert all(step.preempted == {"A.0": "recompute"} for step in lost)
    assert (a.state, b.state, a.generated, b.generated) == (FINISHED, FINISHED, 4, 9)
    assert search.restarts == a.preemptions == len(lost)


class Urgent(Policy):
    """Who has the smaller priority takes the place of others."""

    preempts = True
    steady = True

    def order(self, request, view):
        return request.priority


@pytest.mark.parametrize("blocks", [16, 5])
def test_a_head_that_takes_the_place_of_one_beam_takes_that_of_all(blocks: int) -> None:
    """B comes when both beams have been given their token of the step: for want of a seat, and for want of blocks too."""
    search = Search(*[[0, 1]] * 9)
    a, b = beam_request(search, output_tokens=4), Request("B", 1, 12, 2)
    a.priority = 1
    drive = Drive(a, policy=Urgent(), num_blocks=blocks, block_size=4, max_num_seqs=2)
    drive.step()
    drive.scheduler.add(b)
    step = drive.step()
    assert step.preempted == {"A.0": "recompute"} and step.scheduled == {"B": 12}
    assert search.restarts == 1 and list(drive.state.running) == [b]
    drive.drain()
    assert (a.state, a.generated, b.state, b.generated) == (FINISHED, 4, FINISHED, 2)


class OneByOne(Policy):
    """A plan of its own: in the second of three steps it preempts all that run, one by one, and would go on with them."""

    def __init__(self) -> None:
        self.plans = 0

    def schedule(self, view):
        self.plans += 1
        plan, running = Plan(view), list(view.running)
        if self.plans % 3 == 2:
            for request in running:
                plan.preempt(request)
        for request in [*running, *view.waiting]:
            plan.take(request)
        return plan


def test_a_plan_may_preempt_beams_one_by_one_and_does_so_once() -> None:
    """The second step preempts: nobody is left for it, and the search begins again with the third."""
    search = Search(*[[0, 1]] * 9)
    a = beam_request(search, output_tokens=2)
    drive = Drive(a, policy=OneByOne(), num_blocks=16, block_size=4)
    steps = drive.steps(3)
    assert [step.preempted for step in steps] == [{}, {"A.0": "recompute"}, {}]
    drive.drain()
    assert (a.state, a.generated, search.restarts) == (FINISHED, 2, 1)


def test_beams_of_several_requests_and_orders_of_parents_leak_nothing() -> None:
    import random

    draw = random.Random(3)
    for _ in range(60):
        width = draw.choice([2, 3, 4])
        searches = [Search(*[[draw.randrange(width) for _ in range(width)] for _ in range(7)]) for _ in range(3)]
        requests = [beam_request(search, width, name) for search, name in zip(searches, "ABC", strict=True)]
        requests.append(Request("D", 0, draw.randrange(1, 20), 12))
        caching, blocks, budget = draw.random() < 0.5, draw.choice([14, 16, 20, 40]), draw.choice([3, 8, 64])
        limits = {"enable_prefix_caching": caching, "max_num_batched_tokens": budget, "block_size": 4}
        drive = Drive(*requests, num_blocks=blocks, **limits)
        drive.drain()
        assert all(request.state == FINISHED for request in requests)
        assert all(request.generated == 8 for request in requests[:3])


def test_asynchronous_scheduling_refuses_beams() -> None:
    drive = Drive(num_blocks=8, block_size=4, rules=Rules(async_scheduling=True))
    request = beam_request(Search())
    reason = drive.scheduler.add(request)
    assert request.state == REJECTED and reason is not None and "scheduler.async_scheduling=false" in reason
