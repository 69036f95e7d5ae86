"""priority with ageing and tiers. A step is a second; there is one seat, and X has it until 6 s."""

import pytest

from policies.priority import Priority
from tests.policies.scenarios import named_by_step, played, request


def who_comes_in(older, younger, **parameters):
    """Priorities of A and B, and when they arrive."""
    requests = [request("X", 1, 6)]
    requests += [request(name, 1, 1, at_s, priority=level) for name, (level, at_s) in (("A", older), ("B", younger))]
    steps, _ = played({"name": "priority", **parameters}, requests, blocks=99, max_num_seqs=1)
    return named_by_step(steps)[6:]


def test_without_ageing_the_level_alone_decides():
    assert who_comes_in(older=(1, 0.5), younger=(0, 5.5)) == "BA"


@pytest.mark.parametrize(("arrival_s", "order"), [(2.25, "BA"), (2.5, "AB"), (2.75, "AB")])
def test_two_seconds_of_waiting_make_up_for_one_level(arrival_s, order):
    """A has arrived at 0.5 s: at 2.5 s they are even, and the earlier arrival goes first."""
    assert who_comes_in(older=(1, 0.5), younger=(0, arrival_s), age_s=2.0) == order


@pytest.mark.parametrize(("arrival_s", "order"), [(4.25, "BA"), (4.75, "AB")])
def test_four_seconds_make_up_for_two(arrival_s, order):
    assert who_comes_in(older=(2, 0.5), younger=(0, arrival_s), age_s=2.0) == order


def test_no_age_lets_a_request_overtake_one_of_a_better_tier():
    assert who_comes_in(older=(10, 0.5), younger=(9, 5.5), age_s=0.1) == "AB"
    assert who_comes_in(older=(10, 0.5), younger=(9, 5.5), age_s=0.1, tier_width=10) == "BA"


def test_inside_a_tier_age_counts():
    assert who_comes_in(older=(19, 0.5), younger=(10, 5.5), age_s=0.1, tier_width=10) == "AB"
    assert who_comes_in(older=(19, 0.5), younger=(10, 5.5), tier_width=10) == "BA"


@pytest.mark.parametrize(
    ("parameters", "victim"), [({}, "A"), ({"age_s": 2.0}, "B"), ({"age_s": 2.0, "tier_width": 1}, "A")]
)
def test_victims_are_chosen_by_the_same_order(parameters, victim):
    """Slots of one token, 24 of them. A of level 1 is three seconds older than B of level 0: worth a level and a half."""
    requests = [request("A", 2, 20, priority=1), request("B", 2, 20, 3.0, priority=0)]
    steps, _ = played({"name": "priority", **parameters}, requests, 24, 1)
    assert next(step["preempted"] for step in steps if step["preempted"]) == {victim: "recompute"}


@pytest.mark.parametrize(
    ("parameters", "message"), [({"age_s": 0.0}, "age_s must be above 0"), ({"tier_width": 0}, "tier_wid")]
)
def test_what_makes_no_sense_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Priority(**parameters)
