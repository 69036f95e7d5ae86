"""Predictions in a run: who learns what, and when; the same for every policy, step by step and in stretches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.predictors.mine import Awkward
from tests.sim.cases import Case, Sjf, Srpt, cases, difference
from traces.trace import ClosedLoop, Trace
from twin.core.errors import PolicyError
from twin.core.limits import Limits, Rules
from twin.latency.linear import LinearLatency
from twin.policy import Policy
from twin.predictor import Predictor
from twin.predictors.bucket import Bucket
from twin.predictors.history import History
from twin.predictors.noisy import Noisy
from twin.predictors.none import NoPrediction
from twin.predictors.oracle import Oracle
from twin.sim.predictions import PredictorError, true_lengths
from twin.sim.simulation import Outcome, Setup, Simulation, simulate

SECOND = LinearLatency(base_s=1.0)


class Witness(Policy):
    """Order of arrival; notes the predictions that it sees."""

    def __init__(self) -> None:
        self.seen: dict[str, float | None] = {}

    def on_arrival(self, request, view):
        self.seen[request.id] = request.predicted_output


class ShortestWitness(Witness):
    """Shortest predicted first."""

    needs_prediction = True

    def order(self, request, view):
        return request.predicted_output


class Listener(Predictor):
    """Predicts 5; notes what it is told, and when."""

    def __init__(self) -> None:
        self.prepared, self.lengths, self.ended = False, [], {}  # type: ignore[var-annotated]

    def prepare(self, output_tokens):
        self.prepared = True

    def predict(self, request, output_tokens):
        self.lengths.append(output_tokens)
        return 5

    def on_finish(self, request, generated_tokens):
        assert request.id not in self.ended and request.state == "finished"
        self.ended[request.id] = generated_tokens


def trace(arrival_s: list[float], output_tokens: list[int], **columns: Any) -> Trace:
    return Trace("few", np.array(arrival_s), np.full(len(arrival_s), 8), np.array(output_tokens), **columns)


def served(predictor: Predictor, requests: Trace, policy: Policy | None = None, **limits: Any) -> Outcome:
    return simulate(Setup(Limits(num_blocks=999, **limits), policy or Policy(), SECOND, predictor=predictor), requests)


# --- who sees what


@pytest.mark.parametrize("predictor", [Noisy(), Noisy("exponential"), Noisy("rank"), Bucket(accuracy=0.5)])
@pytest.mark.parametrize("closed", [None, ClosedLoop(3, 0.0)])
def test_two_policies_see_the_same_predictions_in_whatever_order_requests_come(predictor: Predictor, closed):
    rng = np.random.default_rng(1)
    arrival_s = np.sort(rng.uniform(0, 40, 60))
    if closed:
        arrival_s = np.where(np.arange(60) < 3, 0.0, np.nan)
    requests = Trace("sixty", arrival_s, np.full(60, 8), rng.integers(1, 50, 60), closed=closed)
    seen = []
    for policy in (Witness(), ShortestWitness()):
        for asynchronous in (False, True):
            for step_by_step in (False, True):
                policy.seen = {}
                rules = Rules(async_scheduling=asynchronous)
                setup = Setup(Limits(num_blocks=99, max_num_seqs=2), policy, SECOND, rules, predictor=predictor)
                outcome = simulate(setup, requests, step_by_step=step_by_step)
                seen.append((policy.seen, outcome.requests["finish_s"].tolist()))
    assert all(predictions == seen[0][0] for predictions, _ in seen) and len(set(seen[0][0].values())) > 5
    assert seen[0][1] != seen[4][1]  # the policies did not do the same


def test_another_seed_is_another_prediction_and_the_same_seed_the_same():
    requests = trace([0, 0, 0], [50, 60, 70])
    seen = []
    for seed in (0, 1, 0):
        predictor, policy = Noisy(), Witness()
        predictor.seed = seed
        served(predictor, requests, policy)
        seen.append(policy.seen)
    assert seen[0] == seen[2] and not set(seen[0].values()) & set(seen[1].values())


def test_the_true_length_is_what_will_come_within_the_requests_own_limit_and_the_models():
    requests = trace([0, 0, 0], [50, 50, 50], max_tokens=np.array([-1, 20, 60]))
    policy = Witness()
    outcome = served(Oracle(), requests, policy, max_model_len=48)
    assert list(policy.seen.values()) == [40, 20, 40] == outcome.requests["generated_tokens"].tolist()
    assert true_lengths(trace([0], [50]), 8) == [1]  # no room for one: it is rejected


def test_without_predictor_or_with_none_the_view_shows_none():
    for predictor in (None, NoPrediction()):
        policy = Witness()
        simulate(Setup(Limits(num_blocks=99), policy, SECOND, predictor=predictor), trace([0], [5]))
        assert policy.seen == {"0": None}


def test_what_is_below_a_token_is_shown_as_one():
    policy = Witness()
    served(Noisy(sigma=5.0), trace([0] * 40, [2] * 40), policy)
    assert min(policy.seen.values()) == 1 and max(policy.seen.values()) > 2  # type: ignore[type-var, operator]


# --- what a predictor is told


def test_a_predictor_that_needs_no_lengths_is_given_none_before_the_end():
    listener = Listener()
    served(listener, trace([0, 1, 2], [7, 3, 5]))
    assert not listener.prepared and listener.lengths == [None, None, None]
    assert listener.ended == {"0": 7, "1": 3, "2": 5}


def test_of_several_samples_the_tokens_are_their_mean_and_told_once():
    listener = Listener()
    served(listener, trace([0, 0], [7, 3], n=np.array([3, 1])))
    assert listener.ended == {"0.0": 7, "1": 3}  # the first sample speaks for all


def test_rejected_and_aborted_requests_teach_nothing():
    listener = Listener()
    requests = Trace("three", np.zeros(3), np.array([8, 8, 500]), np.full(3, 9), abort_s=np.array([np.nan, 4.5, np.nan]))
    outcome = served(listener, requests, max_model_len=100)
    assert outcome.requests["status"] == ["finished", "aborted", "rejected"]
    assert listener.ended == {"0": 9}


HISTORY = {"user": ["u"] * 4}
TIMES = [0.0, 1.5, 2.5, 3.5]  # steps of a second; the first has 3 tokens and ends at 3.0, when the third is taken in


def test_history_knows_who_has_finished_when_the_scheduler_takes_a_request_in():
    policy = Witness()
    served(History(prior=50), trace(TIMES, [3, 40, 40, 40], **HISTORY), policy)
    assert policy.seen == {"0": 50, "1": 50, "2": 3, "3": 3}


@pytest.mark.parametrize("step_by_step", [False, True])
def test_what_has_not_finished_changes_no_prediction(step_by_step: bool):
    """A canary: lengths that come to light later are exchanged; only then may predictions differ."""
    seen = []
    for hidden in (30, 31, 300):
        policy = Witness()
        setup = Setup(Limits(num_blocks=999), policy, SECOND, predictor=History(prior=50))
        requests = trace([*TIMES, 33.5], [3, hidden, hidden, 2, 9], user=["u"] * 5)
        simulate(setup, requests, step_by_step=step_by_step)
        seen.append(list(policy.seen.values()))
    assert [values[:4] for values in seen] == [[50, 50, 3, 3]] * 3
    # at 34.0 the fourth (2 tokens) has finished; with 30 or 31 so have the second and the third, taken in at 2.0 and 3.0
    assert [values[4] for values in seen] == [(3 + 2 + 30 + 30) / 4, (3 + 2 + 31 + 31) / 4, (3 + 2) / 2]


@settings(max_examples=40, deadline=None)
@given(cases((Sjf, Srpt)))
def test_what_history_teaches_is_the_same_step_by_step_and_in_stretches(case: Case):
    ways = [
        Simulation(
            replace(case.setup(), predictor=History("user", prior=10)), case.trace, step_by_step, literal=literal
        ).run()
        for step_by_step, literal in ((True, True), (True, False), (False, False))
    ]
    assert difference(ways[0], ways[1]) is None and difference(ways[0], ways[2]) is None


# --- what goes wrong


def test_a_policy_that_needs_a_prediction_is_refused_without_one_and_told_who_gives_some():
    for predictor in (None, NoPrediction()):
        with pytest.raises(ValueError) as caught:
            simulate(Setup(Limits(num_blocks=99), Sjf(), SECOND, predictor=predictor), trace([0], [5]))
        message = str(caught.value)
        assert message.startswith("policy Sjf needs predicted output lengths: choose a predictor, predictor=oracle say")
        assert all(name in message for name in ("noisy", "bucket", "history", "constant")) and "\n" not in message


@pytest.mark.parametrize("beforehand", [False, True])
@pytest.mark.parametrize(
    ("at_fault", "message"),
    [
        ("nan", "predictor Awkward, request 2: a prediction must be a finite number of tokens, or None, not nan"),
        ("text", "predictor Awkward, request 2: a prediction must be a finite number of tokens, or None, not 'long'"),
        ("nothing", "predictor Awkward gives request 2 no prediction, and policy Sjf needs one"),
        ("raise", "mine.py:28 raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_predictor_does_wrong_is_one_line_that_names_it(at_fault: str, message: str, beforehand: bool):
    predictor = Awkward(at_fault, beforehand)
    with pytest.raises((PredictorError, PolicyError)) as caught:
        served(predictor, trace([0, 0, 5], [2, 2, 2]), Sjf())
    said = str(caught.value)
    assert said.startswith("predictor Awkward") and message in said and "\n" not in said
    if isinstance(caught.value, PolicyError):  # in the midst of a run: what was done until then is there
        assert caught.value.record.requests["status"] == ["finished", "finished", "unfinished"]  # type: ignore[attr-defined]


def test_an_error_at_the_end_of_a_request_names_the_predictor_too():
    with pytest.raises(PolicyError, match=r"^predictor Awkward, end of request 0: mine.py:33 raised KeyError"):
        served(Awkward("end"), trace([0, 0, 5], [2, 2, 2]), Sjf())


def test_too_few_predictions_are_counted():
    with pytest.raises(PredictorError, match="predict_all gave 2 predictions for 3 requests"):
        served(Awkward("few", beforehand=True), trace([0, 0, 5], [2, 2, 2]))
