"""Stretches of steps at once give what single steps give, for each policy; every request comes to its end."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from policies.fcfs import Fcfs
from policies.orca import Orca
from policies.prefill_first import PrefillFirst
from policies.sarathi import Sarathi
from policies.static import Static
from tests.sim.cases import Case, cases, difference
from tests.sim.test_fast_forward import assert_every_request_got_its_tokens
from twin.sim.simulation import Outcome, Simulation

FEW = settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


class PrefillFirstCapped(PrefillFirst):
    def __init__(self) -> None:
        super().__init__(max_prefill_steps=2)


class OrcaPow2(Orca):
    def __init__(self) -> None:
        super().__init__("pow2")


class OrcaOracle(Orca):
    def __init__(self) -> None:
        super().__init__("oracle")


def run_both_ways(case: Case) -> Outcome:
    steps = Simulation(case.setup(), case.trace, step_by_step=True).run()
    forward = Simulation(case.setup(), case.trace).run()
    assert difference(steps, forward) is None
    assert_every_request_got_its_tokens(case, forward)
    return forward


@pytest.mark.parametrize("policy", [PrefillFirst, PrefillFirstCapped, Sarathi, Static, Orca])
def test_paged(policy: type) -> None:
    @FEW
    @given(cases((policy,)))
    def check(case: Case) -> None:
        run_both_ways(case)

    check()


def contiguous(case: Case) -> Case:
    """The same requests where each can have its longest reservation."""
    trace, limits = case.trace, case.limits
    assert trace.max_tokens is not None
    longest = int((trace.prompt_tokens + trace.max_tokens).max())
    limits = replace(
        limits,
        max_model_len=longest,
        num_blocks=limits.num_blocks + longest,
        max_num_batched_tokens=max(limits.max_num_batched_tokens, 0 if limits.enable_chunked_prefill else longest),
        enable_prefix_caching=False,
    )
    rules = replace(case.rules, allocator="contiguous")
    return replace(case, limits=limits, rules=rules, trace=replace(trace, n=None))


@pytest.mark.parametrize("policy", [Static, Orca, OrcaPow2, OrcaOracle])
def test_contiguous(policy: type) -> None:
    @FEW
    @given(cases((policy,)))
    def check(case: Case) -> None:
        outcome = run_both_ways(contiguous(case))
        assert outcome.counters["preemptions"] == 0

    check()


@FEW
@given(cases((Sarathi,)))
def test_sarathi_is_fcfs_where_no_prompt_is_overtaken_and_the_budget_suffices_for_all_decodes(case: Case) -> None:
    """vLLM V1 took Sarathi's step; only samples (n > 1) can bring about more decodes than a budget let in."""
    assume(case.trace.n is None and not case.limits.long_prefill_token_threshold and case.parts in ({}, {"victim": "last"}))
    ours = Simulation(case.setup(), case.trace).run()
    theirs = Simulation(replace(case, policy=Fcfs).setup(), case.trace).run()
    assert difference(ours, theirs) is None
