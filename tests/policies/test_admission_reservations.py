"""Admission by what is free now, by a watermark, and by what everybody will hold at most."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.fcfs import Fcfs
from policies.max_util import MaxUtil
from policies.no_evict import NoEvict
from policies.watermark import Watermark
from tests.policies.scenarios import played, request
from tests.sim.cases import Case, cases, difference
from twin.sim.simulation import Simulation

RANDOM = settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def admissions(steps):
    """Who came in, by step, counted from 1."""
    return {name: step["step"] for step in steps for name in step["admitted"]}


# --- watermark


@pytest.mark.parametrize(("prompt_tokens", "step"), [(48, 1), (49, 4)])
def test_a_share_of_the_blocks_stays_free_after_an_admission(prompt_tokens, step):
    """10 blocks, 3 of them kept: A takes 4 and leaves 6; B may take 3 of them and not 4, until A has ended in step 3."""
    requests = [request("A", 62, 3), request("B", prompt_tokens, 1)]
    steps, _ = played({"name": "watermark", "share": 0.3}, requests, 10)
    assert admissions(steps) == {"A": 1, "B": step}


def test_when_nothing_runs_the_watermark_keeps_nobody_out():
    steps, _ = played({"name": "watermark", "share": 0.9}, [request("A", 160, 1), request("B", 160, 1)], 10)
    assert admissions(steps) == {"A": 1, "B": 2}


@pytest.mark.parametrize(("second", "step"), [("0-47,900-915", 1), ("800-847,900-915", 4)])
def test_content_that_somebody_holds_costs_the_watermark_nothing(second, step):
    """10 blocks, 5 kept. A holds 4 blocks; B has 4 as well, and finds three of them with A, or none."""
    requests = [
        {"id": "A", "prompt": "0-47,100-113", "output_tokens": 3},
        {"id": "B", "prompt": second, "output_tokens": 1},
    ]
    steps, _ = played({"name": "watermark", "share": 0.5}, requests, 10, cache={"enable_prefix_caching": True})
    assert admissions(steps) == {"A": 1, "B": step}


def test_content_in_the_free_list_counts_as_taken():
    """10 blocks, 5 kept. W leaves 4 cached blocks in the free list, A takes 4: 6 are free, and B's 5 are among them."""
    requests = [
        {"id": "W", "prompt": "0-63", "output_tokens": 1},
        request("A", 62, 3, 1.0),
        {"id": "B", "prompt": "0-63,900-907", "output_tokens": 1, "arrival_s": 1.0},
    ]
    steps, summary = played({"name": "watermark", "share": 0.5}, requests, 10, cache={"enable_prefix_caching": True})
    assert admissions(steps) == {"W": 1, "A": 2, "B": 5}
    assert summary["requests"]["B"]["cached_tokens"] == 64


def test_a_share_that_is_a_whole_number_of_blocks_is_that_number():
    """0.07 * 100 is a little above 7 in binary: 7 blocks of 100 may stay."""
    assert 0.07 * 100 > 7
    steps, _ = played({"name": "watermark", "share": 0.07}, [request("A", 62, 3), request("B", 16 * 89, 1)], 100)
    assert admissions(steps) == {"A": 1, "B": 1}


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_watermark_is_a_share(share):
    with pytest.raises(ValueError, match=f"share must be a share of the blocks, 0 <= share < 1, not {share}"):
        Watermark(share)


# --- whatever fits


@RANDOM
@given(case=cases())
def test_maximum_utilization_is_what_vllm_v1_does(case: Case):
    case = replace(case, parts={}, rules=replace(case.rules, preempt_for_seat=False))
    mine, theirs = (Simulation(replace(case, policy=policy).setup(), case.trace).run() for policy in (MaxUtil, Fcfs))
    assert difference(mine, theirs) is None


# --- reserve to completion


@pytest.mark.parametrize(("max_tokens", "step"), [(33, 1), (34, 6)])
def test_the_head_comes_in_if_all_fit_at_their_longest(max_tokens, step):
    """A: 32 + 33 - 1 tokens are 4 blocks. B: 64 + 33 - 1 are 6, which are there; 64 + 34 - 1 are 7. A ends in step 5."""
    requests = [request("A", 32, 5, max_tokens=33), request("B", 64, 2, max_tokens=max_tokens)]
    steps, _ = played("no_evict", requests, 10)
    assert admissions(steps) == {"A": 1, "B": step}


def test_who_gave_no_limit_may_become_as_long_as_the_model_allows():
    """max_model_len 64 in blocks of 16: 4 blocks each, of 10, whatever the prompt. The third waits for the first end."""
    requests = [request(name, 16, outputs) for name, outputs in (("A", 5), ("B", 9), ("C", 2))]
    steps, _ = played("no_evict", requests, 10, max_model_len=64)
    assert admissions(steps) == {"A": 1, "B": 1, "C": 6}


def test_who_may_outgrow_the_pool_runs_alone():
    requests = [request("A", 16, 3), request("B", 16, 3), request("C", 16, 3, max_tokens=3)]
    steps, _ = played("no_evict", requests, 10)
    assert admissions(steps) == {"A": 1, "B": 4, "C": 7}


@pytest.mark.parametrize(("by", "step"), [("max_tokens", 4), ("prediction", 1)])
def test_by_prediction_no_more_is_reserved_than_is_predicted(by, step):
    """Each has 16 + 3 - 1 tokens in truth, 2 blocks; by its max_tokens, 100, it has 8. 10 blocks."""
    requests = [request(name, 16, 3, max_tokens=100) for name in "AB"]
    steps, _ = played({"name": "no_evict", "by": by}, requests, 10, predictor="oracle")
    assert admissions(steps) == {"A": 1, "B": step}


def test_by_prediction_it_cannot_do_without_a_predictor():
    assert NoEvict(by="prediction").needs_prediction and not NoEvict().needs_prediction


@RANDOM
@given(case=cases(), mode=st.sampled_from(["recompute", "swap"]))
def test_nobody_is_ever_preempted_who_was_reserved_for(case: Case, mode):
    """Starved pools, chunks, prefix caching, aborts, asynchronous scheduling; every request gives its max_tokens."""
    case = replace(case, policy=NoEvict, parts={}, trace=replace(case.trace, n=None))
    case = replace(case, rules=replace(case.rules, preempt_for_seat=False, preemption_mode=mode))
    outcome = Simulation(case.setup(), case.trace).run()
    assert outcome.complete and outcome.counters["preemptions"] == 0


def test_those_pools_are_starved():
    """What the test above would see without reservations: 3 requests of 2 blocks that grow to 4, in 7 blocks."""
    requests = [request(name, 30, 30, max_tokens=30) for name in "ABC"]
    _, evicting = played("max_util", requests, 7)
    _, reserving = played("no_evict", requests, 7)
    assert evicting["preemptions"] > 0 == reserving["preemptions"]
