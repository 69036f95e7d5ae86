"""Orders by predicted size: sjf, ssjf, srpt, trail, lof. A step is a second, a request of n output tokens takes n steps."""

from types import SimpleNamespace

import pytest

from policies.srpt import Srpt
from policies.trail import Trail
from tests.policies.scenarios import named_by_step, played, request

ONE_SEAT = {"blocks": 99, "predictor": "oracle", "max_num_seqs": 1}


def who_runs(policy, requests, **system):
    steps, _ = played(policy, requests, **{**ONE_SEAT, **system})
    return named_by_step(steps)


def of(predicted_output, generated, arrival_s=0.0, state="running"):
    return SimpleNamespace(predicted_output=predicted_output, generated=generated, arrival_s=arrival_s, state=state)


# --- sjf


def test_the_shortest_of_those_that_wait_comes_in_and_nobody_who_runs_is_disturbed():
    requests = [request("A", 1, 3), request("B", 1, 4, 0.5), request("C", 1, 2, 0.6), request("D", 1, 1, 1.5)]
    assert who_runs("sjf", requests) == "AAADCCBBBB"


def test_equally_short_ones_come_in_by_arrival():
    requests = [request("A", 1, 1), request("C", 1, 2, 0.5), request("B", 1, 2, 0.6)]
    assert who_runs("sjf", requests) == "ACCBB"


@pytest.mark.parametrize(("size", "order"), [("output", "ACCBBBB"), ("total", "ABBBBCC")])
def test_the_size_is_the_output_or_prompt_and_output(size, order):
    requests = [request("A", 1, 1), request("B", 1, 4, 0.5), request("C", 16, 2, 0.6)]
    assert who_runs({"name": "sjf", "size": size}, requests) == order


# --- ssjf


def test_classes_of_predicted_length_and_order_of_arrival_inside_a_class():
    """Classes of up to 4, 8 and 16 tokens."""
    outputs = {"X": 1, "D": 9, "C": 8, "B": 5, "A": 4}
    requests = [request(name, 1, output, 0.1 * place) for place, (name, output) in enumerate(outputs.items())]
    assert who_runs({"name": "ssjf", "first_class_tokens": 4}, requests) == "X" + "A" * 4 + "C" * 8 + "B" * 5 + "D" * 9


def test_a_class_must_have_room():
    with pytest.raises(ValueError, match="first_class_tokens must be 1 or more tokens, not 0"):
        played({"name": "ssjf", "first_class_tokens": 0}, [request("A", 1, 1)], **ONE_SEAT)


# --- srpt


def test_a_newcomer_with_less_to_go_takes_the_seat():
    """When B is seen, at 2 s, A has 4 tokens to go."""
    assert who_runs("srpt", [request("A", 1, 6), request("B", 1, 3, 1.5)]) == "AABBBAAAA"


def test_one_with_as_much_to_go_does_not():
    assert who_runs("srpt", [request("A", 1, 6), request("B", 1, 4, 1.5)]) == "AAAAAABBBB"


def test_of_two_who_run_the_one_with_most_to_go_is_displaced():
    requests = [request("A", 1, 9), request("B", 1, 6), request("C", 1, 1, 0.5)]
    steps, _ = played("srpt", requests, **{**ONE_SEAT, "max_num_seqs": 2})
    assert steps[1]["preempted"] == {"A": "recompute"} and steps[1]["admitted"] == ["C"]


def test_the_preempted_one_comes_back_by_what_it_has_to_go():
    """A has 2 to go when C, of 3, waits."""
    requests = [request("A", 1, 4), request("B", 1, 1, 1.5), request("C", 1, 3, 1.6)]
    assert who_runs("srpt", requests) == "AABAACCC"


def test_when_blocks_run_out_the_one_with_most_to_go_gives_way():
    """Slots of one token, 24 of them: prompts of 4, and nine steps with which both have 12; then A has 11 to go, B 9."""
    requests = [request("A", 4, 20), request("B", 4, 18)]
    steps, _ = played("srpt", requests, 24, 1, predictor="oracle")
    assert [step["preempted"] for step in steps[:10]] == [{}] * 9 + [{"A": "recompute"}]


def test_one_that_outlives_its_prediction_has_nothing_to_go():
    assert Srpt().order(of(predicted_output=3, generated=5), None) == 0


# --- trail


@pytest.mark.parametrize(
    ("c", "arrival_s", "order"),
    [
        (0.5, 3.5, "AAAABAAAAAA"),  # seen at 4 s: A has 4 of 10
        (0.5, 4.5, "AAAAAAAAAAB"),  # at 5 s it has half, and is left alone
        (1.0, 4.5, "AAAAABAAAAA"),
        (0.0, 0.5, "AAAAAAAAAAB"),
    ],
)
def test_who_has_come_to_c_of_its_prediction_is_left_alone(c, arrival_s, order):
    assert who_runs({"name": "trail", "c": c}, [request("A", 1, 10), request("B", 1, 1, arrival_s)]) == order


def test_in_the_queue_nobody_is_left_alone():
    trail = Trail(0.5)
    assert trail.order(of(10, 8), None) == float("-inf")
    assert trail.order(of(10, 8, state="waiting"), None) == 2


def test_blocks_are_taken_from_one_that_is_left_alone_only_if_there_are_no_others():
    nearly_done, young = of(100, 90), of(8, 1, arrival_s=1.0)
    assert Trail().victim([nearly_done, young], None) is young


@pytest.mark.parametrize("c", [-0.1, 1.1])
def test_c_is_a_share(c):
    with pytest.raises(ValueError, match="c must be a share of the predicted output from 0 to 1"):
        Trail(c)


# --- lof


def test_the_longest_limit_goes_first_and_no_limit_is_the_longest():
    requests = [
        request("X", 1, 1), request("A", 1, 2, 0.1, max_tokens=3), request("B", 1, 2, 0.2, max_tokens=9),
        request("C", 1, 2, 0.3),
    ]  # fmt: skip
    assert who_runs("lof", requests, predictor="none") == "XCCBBAA"


def test_a_prediction_stands_in_for_a_limit():
    requests = [request("X", 1, 1), request("A", 1, 2, 0.1), request("B", 1, 3, 0.2), request("C", 1, 1, 0.3, max_tokens=4)]
    assert who_runs("lof", requests) == "XCBBBAA"
