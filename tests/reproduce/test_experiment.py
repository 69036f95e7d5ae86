"""The set-up of a published result, and what the command line may change in it."""

import pytest

from twin.cli.errors import UserError
from twin.reproduce.experiment import load, names
from twin.reproduce.result import Figure, holds, near, verdict, within

FILE = """
title: A result
source: somebody, 2024
alike: within 20 %
published: {gain: 2.0}
requests: 100
share: 0.5
rates: [1.0, 2.0]
options: {policy: fcfs, trace: chat}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a_result.yaml").write_text(FILE)
    return tmp_path


def test_values_and_options_are_changed_by_words(folder):
    words = ["requests=7", "share=1", "rates=[3]", "options.policy=srpt", "options.trace.rate=4", "jobs=2"]
    made = load("a_result", words, folder)
    assert made.values == {"requests": 7, "share": 1, "rates": [3]} and made.jobs == 2
    assert made.options == {"policy": "srpt", "trace": "chat", "trace.rate": 4} and made.published == {"gain": 2.0}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (
            "request=7",
            "request: unknown; did you mean requests?; what can be changed: requests, share, rates, jobs, options.NAME",
        ),
        ("requests", "requests: changes are written key=value"),
        ("requests=many", "requests: many is of another kind than 100"),
        ("requests=-1", "requests: -1 is of another kind than 100"),
        ("share=.nan", "share: .nan is of another kind than 0.5"),
        ("rates=[]", "rates: [] is of another kind"),
        ("rates=[a]", "rates: [a] is of another kind"),
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
