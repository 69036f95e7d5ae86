"""Orders by deadline: edf, slack. A step is a second and gives its request one token."""

import pytest

from policies.slack import Slack
from tests.policies.scenarios import named_by_step, played, request


def who_runs(policy, requests, **parameters):
    predictor = "oracle" if policy == "slack" else "none"
    steps, _ = played({"name": policy, **parameters}, requests, blocks=99, predictor=predictor, max_num_seqs=1)
    return named_by_step(steps)


# --- edf


def test_the_earliest_deadline_comes_in_first_and_no_deadline_last():
    requests = [
        request("X", 1, 2), request("C", 1, 1, 0.1), request("D", 1, 1, 0.2), request("A", 1, 1, 0.3, deadline_s=20),
        request("B", 1, 2, 0.4, deadline_s=9),
    ]  # fmt: skip
    assert who_runs("edf", requests) == "XXBBACD"


def test_edf_displaces_a_later_deadline_only_if_it_may():
    requests = [request("A", 1, 4, deadline_s=20), request("B", 1, 2, 0.5, deadline_s=9)]
    assert who_runs("edf", requests) == "AAAABB"
    assert who_runs("edf", requests, preemptive=True) == "ABBAAA"


def test_edf_never_displaces_an_earlier_deadline():
    requests = [request("A", 1, 3, deadline_s=9), request("B", 1, 2, 0.5, deadline_s=20), request("C", 1, 1, 0.6)]
    assert who_runs("edf", requests, preemptive=True) == "AAABBC"


@pytest.mark.parametrize("policy", ["edf", "slack"])
def test_when_blocks_run_out_the_latest_deadline_gives_way(policy):
    """Slots of one token, 20 of them, for two requests of 3 + 12: both have ten when one needs another."""
    requests = [request("A", 3, 12, deadline_s=90), request("B", 3, 12, deadline_s=30)]
    predictor = "oracle" if policy == "slack" else "none"
    steps, _ = played(policy, requests, 20, 1, predictor=predictor)
    assert next(step["preempted"] for step in steps if step["preempted"]) == {"A": "recompute"}


# --- slack


def test_least_slack_may_be_that_of_a_later_deadline():
    """A must begin by 20 - 4 = 16 s, B by 18 - 1 = 17 s."""
    requests = [request("X", 1, 1), request("B", 1, 1, 0.1, deadline_s=18), request("A", 1, 4, 0.2, deadline_s=20)]
    assert who_runs("slack", requests, per_token_s=1.0) == "XAAAAB"
    assert who_runs("edf", requests) == "XBAAAA"


def test_slack_without_a_deadline_comes_last():
    requests = [request("X", 1, 1), request("B", 1, 1, 0.1), request("A", 1, 2, 0.2, deadline_s=1e6)]
    assert who_runs("slack", requests) == "XAAB"


def test_who_runs_gains_slack_and_is_displaced_when_it_has_more_than_one_that_waits():
    """A must begin by 10 s, B by 13 s. With each token A gains a second: with the fourth it can wait until 14 s."""
    requests = [request("A", 1, 10, deadline_s=20), request("B", 1, 2, 0.5, deadline_s=15)]
    assert who_runs("slack", requests, per_token_s=1.0, preemptive=True) == "AAAABBAAAAAA"
    assert who_runs("slack", requests, per_token_s=1.0) == "AAAAAAAAAABB"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_token_takes_some_time(seconds):
    with pytest.raises(ValueError, match="per_token_s must be above 0 seconds"):
        Slack(per_token_s=seconds)
