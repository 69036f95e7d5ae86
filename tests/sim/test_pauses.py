"""Random systems under pressure whose requests pause: every way through a run is the same, and no token is lost."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.infercept import Infercept
from tests.sim.cases import Case, PromptsFirst, cases, difference
from twin import compiled
from twin.core.limits import blocks_for
from twin.core.state import State
from twin.policy_parts import combined
from twin.results.record import Record
from twin.sim.simulation import Setup, Simulation

MOST_RETURNED = 36  # tokens, of all pauses of a request
ASKED = ("recompute", "swap", "keep")
QUICK = settings(
    max_examples=70, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip


@st.composite
def paused_cases(draw: st.DrawFn) -> tuple[Case, bool]:
    """A case of the others' kind whose requests pause; whether `infercept` says what becomes of their blocks."""
    case = draw(cases())
    trace, limits = case.trace, case.limits
    rng = Random(draw(st.integers(0, 2**32)))
    longest_s = draw(st.sampled_from([0.05, 0.5, 5.0]))
    by_infercept = draw(st.booleans()) and case.policy is not PromptsFirst  # that never brings a swapped one back
    limits = replace(
        limits,
        num_blocks=limits.num_blocks + blocks_for(MOST_RETURNED, limits.block_size),
        max_num_batched_tokens=limits.max_num_batched_tokens + (0 if limits.enable_chunked_prefill else MOST_RETURNED),
        max_model_len=limits.max_model_len + MOST_RETURNED,
    )
    mode = "recompute" if case.policy is PromptsFirst else draw(st.sampled_from(ASKED))
    pauses = [pauses_of(rng, int(outputs), longest_s) for outputs in trace.output_tokens]
    trace = replace(trace, n=None, pauses=pauses)
    return replace(case, limits=limits, rules=replace(case.rules, pause=mode), trace=trace), by_infercept


def pauses_of(rng: Random, outputs: int, longest_s: float) -> str:
    """Some, of which some may stand at its end or beyond."""
    count = min(rng.choice([0, 1, 1, 2, 4]), outputs + 2)
    after = sorted(rng.sample(range(1, outputs + 3), count))
    return ";".join(f"{tokens}:{rng.choice([0, rng.random()]) * longest_s}:{rng.choice([0, 0, 1, 9])}" for tokens in after)


def setup_of(case: Case, by_infercept: bool) -> Setup:
    setup = case.setup()
    part = Infercept(expected_pause_s=0.1, recompute_per_token_s=1e-3, swap_per_token_s=3e-4) if by_infercept else None
    return replace(setup, policy=combined(setup.policy, {"pause": part}))


class Watched(Simulation):
    """At each plan, the running sum of parked tokens against the tables, block by block."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        state, check = self.scheduler.state, self.scheduler.state.check
        self.parked = 0

        def check_more() -> None:
            check()
            assert state.parked_tokens == parked_tokens(state)
            self.parked += state.parked_tokens

        if compiled.in_use():
            pytest.skip("a method of a compiled class cannot be replaced")
        state.check = check_more  # type: ignore[method-assign]


def parked_tokens(state: State) -> int:
    """In the blocks that those have on the device who do not run."""
    block_size = state.limits.block_size
    return sum(
        min(block_size, max(0, request.computed - place * block_size))
        for request in (*state.swapped, *state.paused)
        for place, block in enumerate(request.block_table)
        if block is not None
    )


@QUICK
@given(paused_cases())
def test_every_way_through_a_run_has_the_same_outcome(drawn: tuple[Case, bool]) -> None:
    case, by_infercept = drawn
    literal = Watched(setup_of(case, by_infercept), case.trace, step_by_step=True, literal=True).run()
    usual = Watched(setup_of(case, by_infercept), case.trace, step_by_step=True).run()
    simulation = Watched(setup_of(case, by_infercept), case.trace)
    forward = simulation.run()
    assert (difference(literal, usual), difference(usual, forward)) == (None, None)
    told: list[dict[str, Any]] = []
    log = Simulation(setup_of(case, by_infercept), case.trace, decisions=told.append, keep=True)
    assert difference(log.run(), forward) is None
    Record(**vars(forward)).check()
    state = simulation.scheduler.state
    assert state.pool.num_free == case.limits.num_blocks and len(state.pool.free_host) == case.limits.num_host_blocks
    assert not state.kept and not state.parked_tokens
    assert_nothing_is_lost(case, forward.requests)
    if case.trace.abort_s is None:
        assert sum(sum(row["outputs"].values()) for row in told) == forward.requests["generated_tokens"].sum()


def assert_nothing_is_lost(case: Case, requests: dict[str, Any]) -> None:
    """Each comes to its end, with all its tokens, and no sooner than its pauses let it."""
    for row, status in enumerate(requests["status"]):
        assert status in ("finished", "rejected") or (status == "aborted" and case.trace.abort_s is not None)
        if status != "finished":
            continue
        assert case.trace.max_tokens is not None
        wanted = int(min(case.trace.output_tokens[row], case.trace.max_tokens[row]))
        before_end = [pause for pause in case.trace.pauses_of(row) if pause[0] < wanted]
        room = case.limits.max_model_len - case.trace.prompt_tokens[row] - sum(pause[2] for pause in before_end)
        generated = min(wanted, room)
        assert requests["generated_tokens"][row] == generated
        paused_s = sum(pause[1] for pause in before_end if pause[0] < generated)
        assert requests["finish_s"][row] - requests["first_token_s"][row] > paused_s - 1e-9


def test_the_random_cases_do_pause_and_park() -> None:
    """Else the test above would show nothing."""
    seen = np.zeros(4)

    @settings(QUICK, max_examples=40)
    @given(paused_cases())
    def look(drawn: tuple[Case, bool]) -> None:
        simulation = Watched(setup_of(*drawn), drawn[0].trace)
        counters = simulation.run().counters
        seen[:] += (simulation.parked > 0, counters["swapped_blocks"] > 0, counters["swaps_given_up"] > 0, drawn[1])

    look()
    assert (seen > 3).all(), seen
