"""Who waits in which order, by the declarations of a policy."""

import pytest

from tests.core.drive import Drive
from twin.core import PolicyError, Request
from twin.policy import Policy


def order_of(policy: Policy, *requests: Request) -> list[str]:
    drive = Drive(*requests, policy=policy, num_blocks=99, max_num_seqs=1)
    waiting = [request.id for request in drive.state.waiting.in_order()]
    admitted = [name for step in drive.drain() for name in step.admitted]
    return waiting if waiting == admitted else [*waiting, "admitted:", *admitted]


def requests(*rows: tuple[str, int, int]) -> list[Request]:
    return [Request(name, arrival_s, prompt, 1, user=name[0]) for name, arrival_s, prompt in rows]


ROWS = [("b1", 0, 5), ("a1", 1, 3), ("a2", 2, 9), ("b2", 3, 3)]


def test_without_an_order_it_is_that_of_arrival() -> None:
    assert order_of(Policy(), *requests(*ROWS)) == ["b1", "a1", "a2", "b2"]


def test_equal_keys_stand_in_order_of_arrival() -> None:
    class Shortest(Policy):
        def order(self, request, view):
            return request.prompt_tokens

    class ShortestLookedFor(Shortest):
        dynamic = True

    for policy in (Shortest(), ShortestLookedFor()):
        assert order_of(policy, *requests(*ROWS)) == ["a1", "b2", "b1", "a2"]


def test_groups_are_served_by_their_key_and_each_in_order_of_arrival() -> None:
    class Served(Policy):
        """The user who was admitted less often, on a tie by arrival."""

        dynamic, group = True, "user"

        def __init__(self) -> None:
            self.count = {"a": 0, "b": 0}

        def order(self, request, view):
            return self.count[request.user]

        def on_admit(self, request, view):
            self.count[request.user] += 1

    drive = Drive(*requests(*ROWS), policy=Served(), num_blocks=99, max_num_seqs=1)
    assert [name for step in drive.drain() for name in step.admitted] == ["b1", "a1", "a2", "b2"]


def test_a_preempted_request_comes_back_in_front() -> None:
    drive = Drive(
        Request("a", 0, 4, 3), Request("b", 0, 4, 3), Request("c", 0, 4, 3), num_blocks=9, block_size=4, max_num_seqs=2
    )
    drive.step()
    drive.state.preempt(list(drive.state.running)[0], 0)
    assert [request.id for request in drive.state.waiting.in_order()] == ["a", "c"]
    drive.drain()


@pytest.mark.parametrize("dynamic", [False, True])
def test_keys_that_do_not_compare_are_the_policys_error(dynamic: bool) -> None:
    class Mixed(Policy):
        def order(self, request, view):
            return "first" if request.id == "a1" else 1

    policy = Mixed()
    policy.dynamic = dynamic
    with pytest.raises(PolicyError, match="keys must compare"):
        Drive(*requests(*ROWS), policy=policy, num_blocks=99).drain()


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_key_that_is_none_is_a_forgotten_return(dynamic: bool) -> None:
    class Forgotten(Policy):
        def order(self, request, view):
            request.prompt_tokens  # noqa: B018

    policy = Forgotten()
    policy.dynamic = dynamic
    with pytest.raises(PolicyError, match=r"order\(\) returned None for b1: it must return a key"):
        Drive(*requests(*ROWS), policy=policy, num_blocks=99).drain()
