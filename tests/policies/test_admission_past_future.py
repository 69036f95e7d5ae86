"""Admission by the peak of future memory (Gong et al., ASPLOS 2025)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies import past_future
from policies.past_future import PastFuture
from tests.policies.scenarios import played, request
from tests.sim.cases import Case, cases
from twin.sim.simulation import Simulation


def exact(**more):
    return {"name": "past_future", "reserved": 0.0, **more}


def admissions(steps):
    return {name: step["step"] for step in steps for name in step["admitted"]}


# --- the peak


def peak_of_future(held):
    """Of requests of (left, has)."""
    return past_future.peak_of_future(sorted(held))


def test_adm_01_the_peak_of_two():
    """A holds 10 and has 6 left, B holds 20 and has 2 left: when B ends they hold 12 and 22; alone A comes to 16."""
    assert peak_of_future([(6, 10), (2, 20)]) == peak_of_future([(2, 20), (6, 10)]) == 34


@pytest.mark.parametrize(("capacity", "step"), [(34, 9), (35, 2)])
def test_adm_01_a_peak_of_34_tokens_wants_more_than_34(capacity, step):
    """In step 2 A holds 9 + 1 and has 6 of 8 outputs left, B would hold 20 and have 2 of 3 left. A ends in step 8."""
    requests = [request("A", 9, 8), request("B", 20, 3, 0.5)]
    steps, _ = played(exact(), requests, capacity, block_size=1, predictor="oracle")
    assert admissions(steps) == {"A": 1, "B": step}


held = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 50)), max_size=8)


@given(held)
def test_the_peak_is_the_most_that_is_held_at_any_step(requests):
    """Walked step by step: everybody holds one more, and who has none left is gone after it."""
    walked = [sum(has + step for left, has in requests if step <= left) for step in range(31)]
    assert peak_of_future(requests) == max(walked)


@given(held)
def test_who_comes_a_step_later_meets_a_peak_one_lower_at_most(requests):
    """What `steady_steps` builds on: the last of the list waits, all others run on."""
    *running, waiting = requests or [(1, 1)]
    later = [(max(0, left - 1), has + 1) for left, has in running]
    assert peak_of_future([*later, waiting]) >= peak_of_future([*running, waiting]) - 1


def test_the_head_comes_in_when_waiting_has_lowered_the_peak():
    """Two hold 10 in step 2 and have 10 left, H would hold 5 and have 20 left: 3 * 10 + 25 = 55. A step later the peak is
    3 * 9 + 27 = 54, and then 3 * 8 + 29 = 53, which is less than 54."""
    requests = [request("A1", 9, 12), request("A2", 9, 12), request("H", 5, 21, 0.5)]
    steps, _ = played(exact(), requests, 54, block_size=1, predictor="oracle")
    assert admissions(steps) == {"A1": 1, "A2": 1, "H": 4}


def test_a_share_of_the_pool_is_kept_back():
    """The peak of 34 of adm-01 is below 35 and not below 35 * 0.95 = 33.25; below 36 * 0.95 = 34.2 it is."""
    requests = [request("A", 9, 8), request("B", 20, 3, 0.5)]
    steps = [played("past_future", requests, blocks, block_size=1, predictor="oracle")[0] for blocks in (35, 36)]
    assert [admissions(each)["B"] for each in steps] == [9, 2]


def test_when_nothing_runs_the_head_comes_in_whatever_the_peak():
    steps, _ = played("past_future", [request("A", 16, 17, max_tokens=17)], 2)
    assert admissions(steps) == {"A": 1}


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_nobody_is_preempted_where_all_is_known(case: Case):
    """The true lengths, blocks of one token, and whole prompts at once: then the peak is what comes to be."""
    pool = case.limits.num_blocks * case.limits.block_size
    limits = replace(
        case.limits, block_size=1, num_blocks=pool, max_num_batched_tokens=4096, long_prefill_token_threshold=0,
        enable_chunked_prefill=True, enable_prefix_caching=False, watermark=0.0,
    )  # fmt: skip
    rules = replace(case.rules, async_scheduling=False, preempt_for_seat=False)
    trace = replace(case.trace, n=None, prefix=None)
    case = replace(case, policy=lambda: PastFuture(reserved=0.0), parts={}, limits=limits, rules=rules, trace=trace)
    outcome = Simulation(case.setup(), case.trace).run()
    assert outcome.complete and outcome.counters["preemptions"] == 0


# --- what outputs are taken for without a predictor


class Fake(SimpleNamespace):
    """A request that can be a key."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def ended(output, state="finished"):
    return Fake(id="ended", generated=output, state=state)


def outputs_of(policy, generated, max_tokens=None, names=range(300), max_model_len=1000):
    """The lengths that requests of so many outputs so far are taken for."""
    limits = SimpleNamespace(max_model_len=max_model_len)
    requests = [Fake(id=str(name), max_tokens=max_tokens, predicted_output=None) for name in names]
    return [policy.output(request, 100, generated, limits) for request in requests]


def after(*outputs, **parameters):
    policy = PastFuture(**parameters)
    for output in outputs:
        policy.on_finish(ended(output), None)
    return policy


def test_before_anybody_has_finished_a_request_is_taken_for_as_long_as_it_may_become():
    assert outputs_of(PastFuture(), 5, max_tokens=70, names="x") == [70]
    assert outputs_of(PastFuture(), 5, names="x") == [900]
    assert outputs_of(PastFuture(), 5, max_tokens=5000, names="x") == [900]


def test_a_length_is_drawn_from_the_outputs_that_were_longer():
    """10 to 40 have finished; 300 requests draw each of them some 75 times, and after 15 outputs three of them 100 times."""
    policy = after(30, 10, 40, 20)
    fresh, late = outputs_of(policy, 0), outputs_of(policy, 15)
    assert set(fresh) == {10, 20, 30, 40} and all(50 <= fresh.count(length) <= 100 for length in set(fresh))
    assert set(late) == {20, 30, 40} and all(70 <= late.count(length) <= 130 for length in set(late))
    assert max(outputs_of(policy, 0, max_tokens=25)) == 25


def test_who_has_outlived_all_is_taken_to_go_on_for_a_tenth():
    assert outputs_of(after(10, 40), 40, names="x") == [45]
    assert outputs_of(after(10, 40), 40, max_tokens=42, names="x") == [42]


def test_only_the_last_outputs_are_remembered_and_no_aborted_ones():
    policy = after(10, 20, 30, 40, window=2)
    policy.on_finish(ended(500, "aborted"), None)
    assert set(outputs_of(policy, 0)) == {30, 40}


def test_the_longer_a_request_runs_the_longer_it_is_taken_for():
    """Which keeps `steady_steps` true: one draw for life, of the outputs that were longer."""
    policy = after(*range(1, 60, 3), 25, 25)
    for name in range(40):
        taken_for = [outputs_of(policy, generated, names=[name])[0] for generated in range(80)]
        assert taken_for == sorted(taken_for)


def test_draws_depend_on_seed_and_request_alone():
    one, again, other = (outputs_of(after(*range(100), seed=seed), 0) for seed in (1, 1, 2))
    assert one == again != other
    policy = after(*range(100), seed=1)
    assert outputs_of(policy, 0, names=range(299, -1, -1))[::-1] == one


def test_past_outputs_stand_in_for_predictions():
    """As above in 54 tokens, but by W, which yielded 12: so many are expected of the others, though H will yield 2 and all
    may yield 45. In A's second step, 14, 3 * 10 + 25 = 55, then 3 * 9 + 27 = 54, then 3 * 8 + 29 = 53."""
    requests = [request("W", 9, 12, max_tokens=45)]
    requests += [request(name, 9, 12, 12.0, max_tokens=45) for name in ("A1", "A2")]
    requests += [request("H", 5, 2, 12.5, max_tokens=45)]
    steps, _ = played(exact(), requests, 54, block_size=1)
    assert admissions(steps) == {"W": 1, "A1": 13, "A2": 13, "H": 16}


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"reserved": 1.0}, "reserved must be a share of the pool, 0 <= reserved < 1, not 1.0"),
        ({"window": 0}, "window must be 1 or more finished requests, not 0"),
    ],
)
def test_parameters_that_make_no_sense(parameter, message):
    with pytest.raises(ValueError, match=message):
        PastFuture(**parameter)
