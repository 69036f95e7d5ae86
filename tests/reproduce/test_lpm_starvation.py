"""Longest prefix match: how often a cold request is passed over, by the proposal's formula, and who waits."""

import math

import pytest

from twin.reproduce.experiment import load
from twin.reproduce.lpm_starvation import _under_load, _unit_steps


@pytest.mark.parametrize("age_tokens", [512, 1000, 4096])
def test_ageing_bounds_how_often_a_cold_request_is_passed_over(age_tokens):
    """With 4,096 tokens of match against none: ceil(4096 / N) passes, on a tie the older goes first."""
    plain, aged = _unit_steps(load("lpm_starvation", ["hot_requests=12", f"age_tokens={age_tokens}"]))
    assert plain.ours == "12"
    assert aged.ours == str(math.ceil(4096 / age_tokens))


def test_cold_requests_bear_more_of_the_waiting_than_first_come_first_served_gives_them():
    """Twice as many as can be served: hot ones always wait, and a cold one behind all of them."""
    words = ["requests=60", "loads=[2.0]", "prompt_tokens=9600", "hot_tokens=9216", "cold_share=0.1", "jobs=1"]
    share = _under_load(load("lpm_starvation", words))[0]
    assert "share of all TTFT" in share.what and share.direction
