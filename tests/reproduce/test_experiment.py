"""The set-up of a published result, and what the command line may change in it."""

import numpy as np
import pytest

from twin.cli.errors import UserError
from twin.reproduce import vtc_bound
from twin.reproduce.experiment import load, names
from twin.reproduce.result import Figure, holds, near, verdict, within
from twin.reproduce.running import Known

FILE = """
title: A result
source: somebody, 2024
alike: within 20 %
published: {gain: 2.0}
requests: 100
share: 0.5
rates: [1.0, 2.0]
tokens: {chat: [161, 338], code: [20, 5]}
options: {policy: fcfs, trace: chat}
"""
TOKENS = {"chat": [161, 338], "code": [20, 5]}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a_result.yaml").write_text(FILE)
    return tmp_path


def test_values_and_options_are_changed_by_words(folder):
    words = ["requests=7", "share=1", "rates=[3]", "options.policy=srpt", "options.trace.rate=4", "jobs=2"]
    made = load("a_result", words, folder)
    assert made.values == {"requests": 7, "share": 1, "rates": [3], "tokens": TOKENS} and made.jobs == 2
    assert made.options == {"policy": "srpt", "trace": "chat", "trace.rate": 4} and made.published == {"gain": 2.0}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (
            "request=7",
            "request: unknown; did you mean requests?; what can be changed: requests, share, rates, tokens, jobs, options.",
        ),
        ("requests", "requests: changes are written key=value"),
        ("requests=many", "requests: many is of another kind than 100"),
        ("requests=-1", "requests: -1 is of another kind than 100"),
        ("share=.nan", "share: .nan is of another kind than 0.5"),
        ("rates=[]", "rates: [] is of another kind"),
        ("rates=[a]", "rates: [a] is of another kind"),
        ("tokens={chat:[1,2],code:[1]}", "tokens: {chat:[1,2],code:[1]} is of another kind"),
        ("tokens={chat:[1,2],code:[1,-2]}", "tokens: {chat:[1,2],code:[1,-2]} is of another kind"),
        ("tokens={chat:[1,2],code:5}", "tokens: {chat:[1,2],code:5} is of another kind"),
        ("requests=[", "requests: "),
        ("published.gain=1", "published.gain: is what was published"),
        ("title=x", "title: is what was published"),
        ("jobs=0", "jobs: 0 is no number of processes"),
        ("options=3", "options: unknown"),
        ("=3", "=3: changes are written key=value"),
    ],
)
def test_a_wrong_change_is_named(word, says, folder):
    with pytest.raises(UserError) as raised:
        load("a_result", [word], folder)
    assert str(raised.value).startswith(says) and "\n" not in str(raised.value)


def test_an_unknown_result_is_told_what_there_is(folder):
    with pytest.raises(UserError, match="unknown result 'a_resolt'; did you mean a_result.*; known are a_result"):
        load("a_resolt", [], folder)


@pytest.mark.parametrize("name", names())
def test_every_result_says_what_was_published_by_whom_and_what_is_alike(name):
    experiment = load(name)
    assert experiment.title and experiment.source and experiment.alike and experiment.published


def test_near_and_within_include_their_ends():
    assert near(80, 100, 0.2) and near(120, 100, 0.2) and not near(79.9, 100, 0.2) and not near(120.1, 100, 0.2)
    assert within(2.6, [2.6, 3.7]) and not within(2.5, [2.6, 3.7]) and within(2.5, [2.6, 3.7], 0.05)


def test_a_verdict_counts_what_was_judged():
    figures = [Figure("a", "1", "1", True, False), Figure("b", "1", "2", None, True), Figure("c", "1", "?", None, None)]
    assert verdict(figures) == "agrees in direction of 1 of 1, size of 1 of 2"
    assert holds(figures)  # of a figure with a way the size is said, and fails nothing
    assert not holds([Figure("b", "1", "2", None, False)]) and not holds([Figure("a", "1", "1", False, True)])


def test_what_can_be_changed_is_listed_once(folder):
    with pytest.raises(UserError, match="changed: requests, share, rates, tokens, jobs, options.NAME$"):
        load("a_result", ["jobs=2", "x=1"], folder)


@pytest.mark.parametrize("ours", ["nan s", "at most inf x"])
def test_a_figure_without_a_number_is_a_mistake_of_the_set_up(ours, monkeypatch):
    monkeypatch.setattr(vtc_bound, "run", lambda _: [Figure("rate", "2 req/s", ours, True, None)])
    with pytest.raises(UserError, match="vtc_bound: rate: nothing of it can be measured"):
        load("vtc_bound").figures()


@pytest.mark.parametrize("over", [0, np.float64(0)])
def test_so_is_a_ratio_to_nothing(over, monkeypatch):
    monkeypatch.setattr(vtc_bound, "run", lambda _: [Figure("rate", "2", f"{over / over}", True, None)])
    with pytest.raises(UserError, match="vtc_bound: nothing of it can be measured"):
        load("vtc_bound").figures()


def test_and_a_summary_that_does_not_know():
    assert Known({"a": 0})["a"] == 0
    with pytest.raises(UserError, match="tpot_s_p50: nothing to measure it by .2 of 3 requests that count finished"):
        Known({"tpot_s_p50": None, "finished": 2, "requests": 3})["tpot_s_p50"]
