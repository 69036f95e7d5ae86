"""What each predictor says, by hand; what its constructor refuses."""

from math import exp, log
from statistics import NormalDist
from typing import Any

import pytest

from twin.core.request import Request
from twin.policy import RequestView
from twin.predictor import Predictor, as_tokens
from twin.predictors.bucket import Bucket
from twin.predictors.constant import Constant
from twin.predictors.history import History
from twin.predictors.noisy import Noisy
from twin.predictors.none import NoPrediction
from twin.predictors.oracle import Oracle
from twin.predictors_registry import find, names


def view(name: str = "r", user: str | None = None, session: str | None = None) -> RequestView:
    return Request(name, 0.0, 8, 999, user=user, session=session).view


def prepared(predictor: Predictor, lengths: list[int]) -> Predictor:
    predictor.prepare(lengths)
    return predictor


def test_oracle_constant_and_none():
    assert Oracle().predict(view(), 37) == 37 and Oracle().needs_length
    assert Constant(64).predict(view(), None) == 64 and Constant().predict(view(), None) == 200
    assert NoPrediction().predict(view(), None) is None and not NoPrediction().predicts


# --- noisy


def test_lognormal_is_the_length_times_e_to_a_normal():
    half, double = Noisy(sigma=0.5), Noisy(sigma=1.0)
    drawn = half.uniform("r", "error")
    assert half.predict(view(), 100) == pytest.approx(100 * exp(0.5 * NormalDist().inv_cdf(drawn)))
    # the same draw whatever sigma: twice sigma is the squared ratio
    assert double.predict(view(), 100) / 100 == pytest.approx((half.predict(view(), 100) / 100) ** 2)


def test_exponential_has_the_length_as_its_mean():
    noisy = Noisy("exponential")
    assert noisy.predict(view(), 100) == pytest.approx(-100 * log(noisy.uniform("r", "error")))


@pytest.mark.parametrize("perfect", [Noisy(sigma=0.0), Noisy("rank", tau=1.0), Bucket(buckets=1000, value="upper")])
def test_no_noise_is_an_oracle(perfect: Predictor):
    lengths = [5, 9, 9, 1, 700, 32, 32, 32, 8]
    prepared(perfect, lengths)
    ids = [str(row) for row in range(len(lengths))]
    assert perfect.predict_all(ids, lengths) == lengths


def test_tau_of_minus_one_reverses_the_ranks():
    lengths = [10, 20, 30, 40]
    noisy = prepared(Noisy("rank", tau=-1.0), lengths)
    assert noisy.predict_all(list("abcd"), lengths) == [40, 30, 20, 10]


def test_a_length_that_the_trace_does_not_have_takes_the_rank_between():
    noisy = prepared(Noisy("rank", tau=1.0), [10, 20, 30, 40])
    assert [noisy.predict(view(), length) for length in (1, 15, 25, 999)] == [10, 20, 30, 40]


# --- bucket


def test_quantiles_hold_equally_many_and_give_the_middle_or_the_upper_edge():
    lengths = list(range(1, 101))
    middle, upper = (prepared(Bucket(4, value=value), lengths) for value in ("mid", "upper"))
    asked = [1, 25, 26, 50, 51, 75, 76, 100]
    assert [middle.predict(view(), length) for length in asked] == [13, 13, 38, 38, 63, 63, 88, 88]
    assert [upper.predict(view(), length) for length in asked] == [25, 25, 50, 50, 75, 75, 100, 100]


def test_quantiles_that_coincide_make_fewer_buckets():
    bucket = prepared(Bucket(4), [7] * 90 + [20] * 10)  # three of four edges are 7
    assert [bucket.predict(view(), length) for length in (7, 8, 20)] == [7, 14, 14]  # 8 to 20: their middle is 14


def test_doubling_counts_all_that_is_longer_to_the_last():
    bucket = prepared(Bucket(4, "doubling"), [])
    asked = [1, 32, 33, 64, 65, 128, 129, 256, 5000]
    assert [bucket.predict(view(), length) for length in asked] == [16.5, 16.5, 48.5, 48.5, 96.5, 96.5, 192.5, 192.5, 192.5]
    assert prepared(Bucket(3, "doubling", first=10, value="upper"), []).predict(view(), 21) == 40


def test_a_bucket_missed_is_a_neighbour():
    bucket = prepared(Bucket(3, "doubling", accuracy=0.0, value="upper"), [])
    ids = [str(row) for row in range(50)]
    for length, neighbours in ((5, {64}), (40, {32, 128}), (70, {64})):
        assert set(bucket.predict_all(ids, [length] * 50) or []) == neighbours


def test_a_single_bucket_is_never_missed():
    assert prepared(Bucket(1, accuracy=0.0), [3, 5]).predict(view(), 3) == 4


# --- history


def told(predictor: History, *ended: tuple[RequestView, float]) -> History:
    for request, tokens in ended:
        predictor.on_finish(request, tokens)
    return predictor


def test_history_is_the_mean_of_the_users_finished_requests_and_the_prior_before_any():
    history = told(History(prior=77), (view(user="u"), 10), (view(user="u"), 40), (view(user="v"), 1000))
    assert history.predict(view(user="u"), None) == 25
    assert history.predict(view(user="v"), None) == 1000
    assert history.predict(view(user="new"), None) == 77
    assert history.predict(view(), None) == 77  # no user: a group of its own
    assert told(history, (view(), 5)).predict(view(), None) == 5


def test_history_by_session_and_by_all():
    ended = [(view(user="u", session="s"), 10), (view(user="u", session="t"), 30), (view(user="v"), 200)]
    assert told(History("session"), *ended).predict(view(user="u", session="t"), None) == 30
    assert told(History("all"), *ended).predict(view(user="w"), None) == 80


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9, 0.99])
def test_a_quantile_is_the_smallest_that_so_many_did_not_exceed(share: float):
    import numpy as np

    history = History("all", quantile=share)
    lengths = [(37 * step) % 101 + step % 3 for step in range(200)]
    for count, length in enumerate(lengths, 1):
        history.on_finish(view(), length)
        assert history.predict(view(), None) == np.quantile(lengths[:count], share, method="inverted_cdf"), count


# --- all


@pytest.mark.parametrize("name", names())
def test_every_predictor_has_words_for_itself_and_works_as_it_comes(name: str):
    found = find(name)
    predictor, values = found.build({})
    assert set(values) == {parameter.name for parameter in found.parameters}
    lengths = [3, 1, 1000, 40, 40]
    predictor.prepare(lengths)
    for length in lengths:
        tokens = as_tokens(predictor.predict(view(), length if predictor.needs_length else None))
        assert tokens is None if name == "none" else tokens is not None and tokens >= 1


@pytest.mark.parametrize("predictor", [Oracle(), Noisy(), Noisy("exponential"), Noisy("rank"), Bucket(accuracy=0.6)])
def test_all_at_once_is_one_by_one(predictor: Predictor):
    lengths = [(row * row) % 977 + 1 for row in range(300)]
    ids = [f"request-{row}" for row in range(300)]
    predictor.prepare(lengths)
    assert predictor.predict_all(ids, lengths) == [
        predictor.predict(view(name), length) for name, length in zip(ids, lengths, strict=True)
    ]


def test_predictions_are_at_least_a_token_and_never_odd():
    assert [as_tokens(value) for value in (None, 0, -3.5, 0.2, 1, 7, 2.5)] == [None, 1, 1, 1, 1, 7, 2.5]
    for odd in (float("nan"), float("inf"), "7", True, [7], 1j):
        with pytest.raises(ValueError, match="must be a finite number of tokens, or None, not"):
            as_tokens(odd)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("constant", {"tokens": 0.5}, "predictor=constant: tokens must be at least 1, not 0.5"),
        ("constant", {"tokens": "many"}, "predictor.tokens=many: predictor=constant takes float here"),
        (
            "constant",
            {"token": 3},
            "predictor.token: no such parameter of predictor=constant; did you mean predictor.tok",
        ),
        ("none", {"tokens": 3}, "predictor.tokens: no such parameter of predictor=none (parameters: it has none)"),
        ("oracle", {"sigma": 1.0}, "predictor.sigma: no such parameter of predictor=oracle"),
        ("noisy", {"kind": "gauss"}, "predictor.kind=gauss: predictor=noisy takes lognormal|exponential|rank here"),
        ("noisy", {"sigma": -1}, "predictor=noisy: sigma must be from 0 to 10, not -1"),
        ("noisy", {"kind": "rank", "tau": 1.5}, "predictor=noisy: tau must be from -1 to 1, not 1.5"),
        ("noisy", {"kind": "rank", "sigma": 1}, "predictor=noisy: sigma=1 belongs to kind=lognormal, and kind is rank"),
        ("noisy", {"tau": 0.9}, "predictor=noisy: tau=0.9 belongs to kind=rank, and kind is lognormal"),
        ("bucket", {"buckets": 0}, "predictor=bucket: buckets must be from 1 to 1000, not 0"),
        ("bucket", {"buckets": 2.5}, "predictor.buckets=2.5: predictor=bucket takes int here"),
        ("bucket", {"edges": "doubling", "buckets": 41}, "buckets must be at most 40 when they double, not 41"),
        ("bucket", {"edges": "doubling", "first": 0}, "first must be at least 1 token, not 0"),
        ("bucket", {"first": 64}, "predictor=bucket: first=64 belongs to edges=doubling, and edges is quantiles"),
        ("bucket", {"accuracy": 1.2}, "predictor=bucket: accuracy must be from 0 to 1, not 1.2"),
        ("history", {"by": "model"}, "predictor.by=model: predictor=history takes user|session|all here"),
        ("history", {"quantile": 1}, "predictor=history: quantile must be above 0 and below 1, not 1"),
        ("history", {"prior": 0}, "predictor=history: prior must be at least 1 token, not 0"),
    ],
)
def test_what_is_refused_and_what_would_be_right(name: str, given: dict[str, Any], words: str):
    with pytest.raises(ValueError) as caught:
        find(name).build(given)
    assert str(caught.value).startswith("predictor") and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [{"sigma": float("nan")}, {"kind": "rank", "tau": float("nan")}])
def test_not_a_number_is_refused(given: dict[str, Any]):
    with pytest.raises(ValueError, match="must be from"):
        find("noisy").build(given)
