"""What swapping costs: seconds on the link, beside or before the computation, and against computing again."""

import numpy as np
import pytest

from policies.fcfs import Fcfs
from traces.trace import Trace
from twin.core import Limits, Request, Rules
from twin.core.block_pool import BlockPool
from twin.latency.linear import LinearLatency
from twin.sim import Setup, SwapCost, simulate
from twin.sim.costs import cheaper_mode, recompute_s
from twin.sim.swap_link import SwapLink

BYTES_PER_TOKEN = 0.8e6  # OPT-13B
GB_S = 25e9 / 2**30  # 25 GB/s in GiB/s


def opt_13b(block_size: int) -> SwapCost:
    """Copies are not coalesced: 40 layers x (keys, values) x 10 us."""
    return SwapCost(int(block_size * BYTES_PER_TOKEN), GB_S, per_copy_s=40 * 2 * 10e-6)


@pytest.mark.parametrize("block_size, seconds", [(16, 0.083968), (32, 0.058368), (64, 0.045568), (128, 0.039168)])
def test_seconds_fall_with_the_block_size(block_size: int, seconds: float) -> None:
    """swap-05: 1,024 tokens one way are 0.032768 s of bytes, and 0.8192 / block_size of copies."""
    assert opt_13b(block_size).seconds(1024 // block_size) == pytest.approx(seconds, rel=1e-12)


def test_recomputation_does_not_depend_on_the_block_size_and_wins_for_small_blocks() -> None:
    """swap-05: 100 us a token are 0.1024 s; out and back in are 0.168 s in blocks of 16, and 0.091 s in blocks of 64."""
    latency = LinearLatency(base_s=0.01, per_prefill_token_s=100e-6)
    assert recompute_s(latency, 1024) == pytest.approx(0.1024, rel=1e-12)
    for block_size, mode in ((16, "recompute"), (32, "recompute"), (64, "swap")):
        request = Request("a", 0, 1024, 9)
        request.pool = BlockPool(Limits(99, block_size=block_size))
        request.settled_computed = 1024
        assert cheaper_mode(latency, opt_13b(block_size))(request) == mode


def test_the_link_serves_one_transfer_at_a_time() -> None:
    """4 blocks of 0.25 s; computing takes 0.6 s."""
    for overlap, ends in ((False, [1.6, 2.6]), (True, [1.0, 2.0])):
        link = SwapLink(SwapCost(per_copy_s=0.25, overlap=overlap))
        assert [link.end_of_step(0.0, 0.6, 4), link.end_of_step(0.0, 0.6, 4)] == pytest.approx(ends)
        assert link.end_of_step(9.0, 0.6, 0) == pytest.approx(9.6)
        assert link.blocks_moved == 8


@pytest.mark.parametrize("overlap, durations", [(False, [1, 1.4, 1, 1.4, 1]), (True, [1, 1, 1, 1, 1])])
def test_a_step_lasts_longer_by_what_it_moves(overlap: bool, durations: list[float]) -> None:
    """swap-01 with room: step 2 takes 4 blocks out, step 4 brings them back."""
    trace = Trace("two", np.zeros(2), np.full(2, 64), np.full(2, 3))
    limits = Limits(num_blocks=8, num_host_blocks=4)
    cost = SwapCost(per_copy_s=0.1, overlap=overlap)
    setup = Setup(limits, Fcfs(), LinearLatency(base_s=1.0), Rules(preemption_mode="swap"), cost)
    outcome = simulate(setup, trace)
    steps = outcome.steps
    assert np.repeat(steps["duration_s"] / steps["repeat"], steps["repeat"]) == pytest.approx(durations)
    assert (steps["swapped_out_blocks"].sum(), steps["swapped_in_blocks"].sum()) == (4, 4)
    assert outcome.counters["swapped_blocks"] == 8


def test_costs_are_checked() -> None:
    with pytest.raises(ValueError, match="swap.bandwidth_gib_s must be more than 0 GiB/s, not 0"):
        SwapCost(bandwidth_gib_s=0)
    with pytest.raises(ValueError, match="swap.per_copy_s must be a time of at least 0 s, not -1"):
        SwapCost(per_copy_s=-1)


@pytest.mark.parametrize("step_by_step", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_blocks_of_whoever_pauses_cost_as_those_of_a_victim(step_by_step: bool, asynchronous: bool) -> None:
    """A leaves 2 blocks of 16 at 2 s (17 tokens computed), back 10 s later; B goes on, a step a second, 0.1 s a block."""
    pauses = ["2:10", ""]
    trace = Trace("two", np.zeros(2), np.full(2, 16), np.array([4, 30]), pauses=pauses)
    limits = Limits(num_blocks=8, num_host_blocks=4)
    setup = Setup(
        limits,
        Fcfs(),
        LinearLatency(base_s=1.0),
        Rules(pause="swap", async_scheduling=asynchronous),
        SwapCost(per_copy_s=0.1),
    )
    steps = simulate(setup, trace, step_by_step=step_by_step).steps
    assert (steps["swapped_out_blocks"].sum(), steps["swapped_in_blocks"].sum()) == (2, 2)
    moving = steps["swapped_out_blocks"] + steps["swapped_in_blocks"] > 0
    assert steps["duration_s"][moving] == pytest.approx([1.2, 1.2])
    out, back = np.flatnonzero(moving)
    assert steps["step"][out] == (4 if asynchronous else 3)  # a step is in flight already when the pause begins
    assert steps["start_s"][back] >= 12
