"""Blocks on the host: what moves, what stays, and what happens when there is no room."""

import pytest

from tests.core.drive import Drive, finished_with
from twin.core import Request, Rules
from twin.policy import Policy

SWAP = Rules(preemption_mode="swap")


def test_without_room_on_the_host_it_is_recomputed() -> None:
    """swap-01: four blocks do not fit in a host pool of one."""
    a, b = Request("a", 0, 64, 3), Request("b", 0, 64, 3)
    drive = Drive(a, b, rules=SWAP, num_blocks=8, block_size=16, num_host_blocks=1)
    assert drive.step().scheduled == {"a": 64, "b": 64}
    assert drive.step().preempted == {"b": "recompute"}
    assert drive.state.swap_fallbacks == 1
    drive.drain()
    assert finished_with(a, 3) and finished_with(b, 3)


def test_with_room_it_goes_to_the_host_and_nothing_is_recomputed() -> None:
    a, b = Request("a", 0, 64, 3), Request("b", 0, 64, 3)
    drive = Drive(a, b, rules=SWAP, num_blocks=8, block_size=16, num_host_blocks=4)
    steps = drive.drain()
    assert [step.preempted for step in steps] == [{}, {"b": "swap"}, {}, {}, {}]
    assert [step.scheduled for step in steps[1:]] == [{"a": 1}, {"a": 1}, {"b": 1}, {"b": 1}]
    assert finished_with(b, 3) and b.recomputed_tokens == 0 and b.swap_outs == 1


def test_shared_blocks_stay_on_the_device() -> None:
    """swap-03: r1 shares 2 full blocks with r2 and owns 2: these move, and as many come back."""
    keys = ["k0", "k1"]
    r2, r1 = Request("r2", 0, 33, 6, block_keys=keys), Request("r1", 0, 49, 6, block_keys=keys)
    drive = Drive(r2, r1, num_blocks=8, block_size=16, num_host_blocks=4, enable_prefix_caching=True)
    drive.step()
    assert (r2.block_table, r1.block_table) == ([0, 1, 2], [0, 1, 3, 4])
    free = drive.pool.num_free
    drive.state.preempt(r1, 0, "swap")
    assert [move.way for move in drive.state.transfers] == ["out", "out"] and drive.pool.num_free == free + 2
    assert r1.block_table == [0, 1, None, None] and len(r1.host_blocks or ()) == 2
    assert drive.pool.references(0) == drive.pool.references(1) == 1 + 1  # r1 holds on to them
    batch = drive.scheduler.plan(1.0)
    assert batch.swapped_in_blocks == 2 and [request.id for request in batch.swapped_in] == ["r1"]
    drive.scheduler.commit(2.0)
    drive.drain()
    assert finished_with(r1, 6) and finished_with(r2, 6) and r1.recomputed_tokens == 0


def test_swapped_requests_that_lock_each_other_out_are_recomputed() -> None:
    """x and y share two blocks, which neither lets go while both are on the host; z then needs 7 of the 6 others.

    z 9 + 20 - 1 = 28 tokens, 7 blocks of 4; x, y the same with a shared prefix of 2. Step 5: y goes; step 9: x goes;
    step 17: z needs a seventh block and, alone, goes itself. None of the three can come back until two are given up.
    """
    keys = ["k0", "k1"]
    z = Request("z", 0, 9, 20)
    x, y = Request("x", 0, 9, 20, block_keys=keys), Request("y", 0, 9, 20, block_keys=keys)
    limits = dict(num_blocks=8, block_size=4, num_host_blocks=9, enable_prefix_caching=True)
    drive = Drive(z, x, y, rules=SWAP, **limits)
    steps = drive.steps(17)
    assert {number: step.preempted for number, step in enumerate(steps, 1) if step.preempted} == {
        5: {"y": "swap"}, 9: {"x": "swap"}, 17: {"z": "swap"},
    }  # fmt: skip
    assert drive.state.swaps_given_up == 0
    assert drive.step().scheduled == {"z": 1}
    assert drive.state.swaps_given_up == 2
    drive.drain()
    assert all(finished_with(request, 20) for request in (x, y, z))


def test_swapped_requests_do_not_lock_out_a_head_that_comes_before_them() -> None:
    """Under a preemptive order a waiting request may be the head: 25 tokens, 7 of the 8 blocks, of which x and y,
    both on the host, hold 2."""

    class Urgent(Policy):
        preempts = True

        def order(self, request, view):
            return request.priority

    keys = ["k0", "k1"]
    x, y = (Request(name, 0, 9, 20, block_keys=keys, priority=1) for name in "xy")
    limits = dict(num_blocks=8, block_size=4, num_host_blocks=9, enable_prefix_caching=True)
    drive = Drive(x, y, policy=Urgent(), **limits)
    drive.step()
    for request in (y, x):
        drive.state.preempt(request, 0, "swap")
    assert drive.pool.num_free == 6
    drive.scheduler.add(Request("z", 0, 25, 4, priority=0))
    assert drive.step().scheduled == {"z": 25}
    assert drive.state.swaps_given_up == 2
    drive.drain()
    assert finished_with(x, 20) and finished_with(y, 20)


def test_a_request_that_comes_back_waits_until_a_step_preempts_nobody() -> None:
    a, b = Request("a", 0, 8, 6), Request("b", 0, 8, 6)
    drive = Drive(a, b, rules=SWAP, num_blocks=4, block_size=4, num_host_blocks=4)
    steps = drive.drain()
    preempting = [number for number, step in enumerate(steps) if step.preempted]
    assert preempting and all(not steps[number].admitted for number in preempting)


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_preemption_costs_no_token(mode: str) -> None:
    """eng-06, the scheduler's part"""
    requests = [Request(f"r{number}", 0, 7, 9) for number in range(4)]
    rules = Rules(preemption_mode=mode)
    drive = Drive(*requests, rules=rules, num_blocks=9, block_size=4, num_host_blocks=9)
    drive.drain()
    assert sum(request.preemptions for request in requests) > 0
    assert all(finished_with(request, 9) for request in requests)
