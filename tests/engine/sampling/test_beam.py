"""Beam search: small cases by hand."""

from collections.abc import Mapping

import pytest

from engine.sampling.beam import BeamGroup, BeamStep, Candidate
from engine.sampling.params import EarlyStopping

STOP = 0


def step(group: BeamGroup, *offers: Mapping[int, float]) -> BeamStep:
    """`offers[i]`: log-probabilities of the tokens that beam i offers."""
    return group.step(
        [Candidate(parent, token, log_prob) for parent, offer in enumerate(offers) for token, log_prob in offer.items()]
    )


def two_beams_after_two_steps(early_stopping: EarlyStopping, length_penalty: float = 1.0, max_tokens: int = 10) -> BeamGroup:
    group = BeamGroup(2, length_penalty, early_stopping, [STOP], max_tokens)
    assert group.num_candidates == 4
    first = step(group, {1: -0.5, 2: -1.0, STOP: -1.5, 3: -2.0})
    assert first == BeamStep([(0, 1), (0, 2)], [], False)  # the stop token is third of two: it does not count
    second = step(group, {STOP: -0.1, 1: -1.0}, {2: -0.2, STOP: -3.0})
    # scores -0.6 (stop), -1.2 (beam 1, token 2), -1.5 (beam 0, token 1), -4 (stop)
    assert second.beams == [(1, 2), (0, 1)] and not second.done
    assert [hypothesis.tokens for hypothesis in second.finished] == [(1, STOP)]
    assert [beam.tokens for beam in group.beams] == [(2, 2), (1, 1)]
    return group


@pytest.mark.parametrize(
    ("early_stopping", "length_penalty", "done"),
    [
        (True, 1.0, True),
        (False, 1.0, True),  # the best living beam scores -1.9 / 3 = -0.63, the worst hypothesis -1.5 / 3 = -0.5
        ("never", 1.0, False),  # at 10 tokens it could score -0.19
        ("never", 0.0, True),  # without a penalty it can only fall from -1.9, under -1.5
        ("never", -1.0, True),  # -1.9 * 3 under -1.5 * 3
    ],
)
def test_when_two_hypotheses_end_the_search(early_stopping: EarlyStopping, length_penalty: float, done: bool) -> None:
    group = two_beams_after_two_steps(early_stopping, length_penalty)
    third = step(group, {STOP: -0.3, 4: -1.0}, {3: -0.4, 1: -2.0})
    assert third.done == group.done == done
    assert third.beams == ([] if done else [(1, 3), (0, 4)])
    assert [hypothesis.tokens for hypothesis in group.hypotheses] == [(1, STOP), (2, 2, STOP)]
    expected = [-0.6 / 2**length_penalty, -1.5 / 3**length_penalty]
    assert [hypothesis.score for hypothesis in group.hypotheses] == pytest.approx(expected)


def test_a_better_hypothesis_takes_the_place_of_the_worst() -> None:
    group = two_beams_after_two_steps("never")
    step(group, {STOP: -0.3, 4: -1.0}, {3: -0.4, 1: -2.0})
    # beams (1, 1, 3) at -1.9 and (2, 2, 4) at -2.2: ending now, -1.92 / 4 = -0.48 beats -0.5
    fourth = step(group, {STOP: -0.02, 5: -6.0}, {6: -6.0, 7: -7.0})
    assert [hypothesis.tokens for hypothesis in group.hypotheses] == [(1, STOP), (1, 1, 3, STOP)]
    assert fourth.done  # -7.9 / 10 = -0.79 is under -0.48


def test_at_max_tokens_the_first_beams_end_as_they_are() -> None:
    group = two_beams_after_two_steps("never", max_tokens=3)
    third = step(group, {5: -0.3, 4: -1.0}, {3: -0.4, 1: -2.0})
    assert third.done and third.beams == [] and group.beams == []
    assert [hypothesis.tokens for hypothesis in third.finished] == [(2, 2, 5), (1, 1, 3)]
    assert [hypothesis.tokens for hypothesis in group.hypotheses] == [(1, STOP), (2, 2, 5)]


def test_a_candidate_carries_its_parent_whatever_number_each_beam_offers() -> None:
    """cow-05: two and three candidates of two beams; by its place, the fourth would belong to beam 1, or to beam 2."""
    group = BeamGroup(2, 1.0, False, [STOP], 9)
    step(group, {1: -0.1, 2: -0.2})
    candidates = [
        Candidate(1, 5, -3.0),
        Candidate(0, 6, -9.0),
        Candidate(1, 7, -0.5),
        Candidate(1, 8, -0.4),
        Candidate(0, 9, -8.0),
    ]
    assert group.step(candidates).beams == [(1, 8), (1, 7)]
    assert [beam.tokens for beam in group.beams] == [(2, 8), (2, 7)]


def test_the_order_of_the_candidates_does_not_matter_even_among_equals() -> None:
    candidates = [Candidate(0, token, -1.0) for token in (4, 2, 3, 1)]
    both = []
    for order in (candidates, candidates[::-1]):
        both.append(BeamGroup(3, 1.0, False, [STOP], 9).step(order).beams)
    assert both[0] == both[1] == [(0, 1), (0, 2), (0, 3)]


def test_all_beams_may_be_about_to_stop_and_the_search_goes_on() -> None:
    group = BeamGroup(2, 1.0, "never", [STOP, 9], 50)
    assert group.num_candidates == 6
    first = step(group, {STOP: -0.8, 9: -0.9, 1: -3.0, 2: -3.1, 3: -3.2, 4: -3.3})
    assert [hypothesis.tokens for hypothesis in first.finished] == [(STOP,), (9,)]
    assert first.beams == [(0, 1), (0, 2)] and not first.done


def test_an_impossible_token_makes_no_beam() -> None:
    group = BeamGroup(2, 1.0, False, [STOP], 9)
    assert step(group, {1: -0.1, STOP: float("-inf")}) == BeamStep([(0, 1)], [], False)
    assert step(group, {STOP: float("-inf")}) == BeamStep([], [], True)
