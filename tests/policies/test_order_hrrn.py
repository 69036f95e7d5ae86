"""hrrn: waiting makes up for size; and the kinetic tournament that says who is next, against a look at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.hrrn import _Entry, _rank, _Tournament
from tests.policies.scenarios import named_by_step, played, request


@pytest.mark.parametrize(("arrival_s", "next_in"), [(7.0, "S"), (7.5, "L"), (8.0, "L")])
def test_waiting_makes_up_for_size(arrival_s, next_in):
    """At 10 s L, of 8 tokens, has waited 10 s: 10/8. S, of 2, is even with it if it has waited 2.5 s."""
    requests = [request("H", 1, 10), request("L", 1, 8), request("S", 1, 2, arrival_s)]
    steps, _ = played("hrrn", requests, blocks=99, predictor="oracle", max_num_seqs=1)
    assert named_by_step(steps)[9:11] == "H" + next_in


def test_the_size_may_include_the_prompt():
    """At 6 s A has waited 4 s and B 5 s: 4/2 and 5/4 by output, 4/10 and 5/5 with the prompt."""
    requests = [request("X", 1, 6), request("B", 1, 4, 1.0), request("A", 8, 2, 2.0)]
    orders = [
        named_by_step(played({"name": "hrrn", "size": size}, requests, 99, predictor="oracle", max_num_seqs=1)[0])[6]
        for size in ("output", "total")
    ]
    assert orders == ["A", "B"]


def test_the_next_in_line_changes_by_time_alone():
    """Slots of one token, 30, of which X holds ten and more: L, which wants 20, is first in line and does not fit.

    (t - 0.5) / 10 of L and (t - 3.5) / 4 of S are even at 5.5 s: the plan at 6 s finds S first, and lets it in.
    """
    requests = [request("X", 10, 15), request("L", 20, 10, 0.5), request("S", 1, 4, 3.5)]
    _, summary = played("hrrn", requests, 30, 1, predictor="oracle")
    assert summary["requests"]["S"]["first_token_s"] == 7.0


# --- the tournament

TIMES = st.one_of(st.integers(0, 30), st.floats(0, 30))
SIZES = st.one_of(st.integers(1, 9), st.floats(0.5, 9))
STEPS = st.lists(st.one_of(st.tuples(st.just("add"), TIMES, SIZES), st.tuples(st.just("pass"), TIMES),
                           st.just(("take",)), st.tuples(st.just("remove"), st.integers(0, 99))), max_size=80)  # fmt: skip


class Someone:
    """Stands for a request."""


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_the_winner_is_the_one_that_a_look_at_all_finds(steps):
    tournament, entries, now = _Tournament(), [], 0.0
    for number, step in enumerate(steps):
        if step[0] == "add":
            entries.append(_Entry(now - step[1], step[2], f"{number:02d}", Someone()))
            tournament.add(entries[-1], now)
        elif step[0] == "pass":
            now += step[1]
        elif entries:
            gone = (
                min(entries, key=lambda entry: _rank(entry, now)) if step[0] == "take" else entries[step[1] % len(entries)]
            )
            entries.remove(gone)
            tournament.remove(gone.request, now)
        best = min(entries, key=lambda entry: _rank(entry, now), default=None)
        assert tournament.first(now) is (best and best.request)
        until = tournament.steady_until
        if best and now < until < 1e9:  # it stays so up to that time
            just_before = now + (until - now) * (1 - 1e-9)
            assert min(entries, key=lambda entry: _rank(entry, just_before)) is best
    assert len(tournament.places) == len(entries)


def test_what_an_event_costs_grows_with_the_logarithm_of_those_that_wait(monkeypatch):
    """One comes and one is taken: each plays the 14 matches above its leaf of 2**14, and some have to be played again."""
    assert matches_an_event(10_000, monkeypatch) < 3 * 14
    assert matches_an_event(10, monkeypatch) < 3 * 4


def matches_an_event(waiting: int, monkeypatch: pytest.MonkeyPatch) -> float:
    count = 0
    play = _Tournament._play

    def counted(self, node, now):
        nonlocal count
        count += 1
        play(self, node, now)

    monkeypatch.setattr(_Tournament, "_play", counted)
    tournament = _Tournament()
    for number in range(waiting):
        tournament.add(_Entry(number * 0.01, 1 + number * 7919 % 1000, str(number), Someone()), number * 0.01)
    count, events = 0, 2000
    for number in range(waiting, waiting + events):
        now = number * 0.01
        tournament.add(_Entry(now, 1 + number * 7919 % 1000, str(number), Someone()), now)
        tournament.remove(tournament.first(now), now)
    monkeypatch.setattr(_Tournament, "_play", play)
    return count / events
