"""Orders by the service attained: las, ps. A step is a second and gives its request one token; there is one seat."""

import pytest

from policies.las import Las
from policies.ps import Ps
from tests.policies.scenarios import named_by_step, played, request


def who_runs(policy, requests, **parameters):
    steps, _ = played({"name": policy, **parameters}, requests, blocks=99, max_num_seqs=1)
    return named_by_step(steps)


# --- las


def test_las_displaces_who_has_had_a_quantum_more():
    """At 2 s A has had one quantum and B none; at 4 s both one: nobody moves; at 6 s B two."""
    requests = [request("A", 1, 5), request("B", 1, 5, 0.5)]
    assert who_runs("las", requests, quantum_tokens=2) == "AABBBBAAAB"


def test_las_lets_a_newcomer_in_at_once_where_the_other_has_had_a_quantum():
    requests = [request("A", 1, 8), request("B", 1, 1, 4.5)]
    assert who_runs("las", requests, quantum_tokens=2) == "AAAAABAAA"


def test_las_may_count_the_prompt():
    """With its first token A has had 9 tokens, and B, seen at 1 s, none."""
    requests = [request("A", 8, 5), request("B", 1, 3, 0.5)]
    assert who_runs("las", requests, quantum_tokens=2) == "AABBBAAA"
    assert who_runs("las", requests, quantum_tokens=2, count_prompt=True) == "ABBBAAAA"


def test_under_las_a_stream_of_newcomers_starves_who_has_had_something():
    """A newcomer of one token each second: nothing for L until they end."""
    requests = [request("L", 1, 4), *(request("N", 1, 1, second + 0.5) | {"id": f"N{second}"} for second in range(12))]
    _, summary = played({"name": "las", "quantum_tokens": 1}, requests, blocks=99, max_num_seqs=1)
    assert summary["requests"]["L"]["token_times_s"] == [1.0, 14.0, 15.0, 16.0]


def test_las_takes_blocks_from_who_has_had_most():
    """Slots of one token, 24 of them. B, seen at 4 s, has had less when they run out."""
    requests = [request("A", 2, 20), request("B", 2, 20, 3.5)]
    steps, _ = played({"name": "las", "quantum_tokens": 1}, requests, 24, 1)
    assert next(step["preempted"] for step in steps if step["preempted"]) == {"A": "recompute"}


# --- ps


def test_ps_goes_round_in_turns_of_a_quantum():
    requests = [request("A", 1, 4), request("B", 1, 4, 0.5)]
    assert who_runs("ps", requests, quantum_tokens=2) == "AABBAABB"
    assert who_runs("ps", requests, quantum_tokens=1) == "ABABABAB"
    assert who_runs("ps", requests, quantum_tokens=9) == "AAAABBBB"


def test_ps_puts_a_newcomer_behind_who_waits_and_before_who_has_just_had_a_turn():
    """C comes while A waits and B has its turn."""
    requests = [request("A", 1, 3), request("B", 1, 2, 0.5), request("C", 1, 1, 1.5)]
    assert who_runs("ps", requests, quantum_tokens=1) == "ABACBA"


def test_under_ps_nobody_starves():
    """The same stream as under las: before each turn of L come those that stood in line before it, once each."""
    requests = [request("L", 1, 4), *(request("N", 1, 1, second + 0.5) | {"id": f"N{second}"} for second in range(12))]
    _, summary = played({"name": "ps", "quantum_tokens": 1}, requests, blocks=99, max_num_seqs=1)
    assert summary["requests"]["L"]["token_times_s"] == [1.0, 3.0, 6.0, 10.0]


def test_who_loses_its_blocks_keeps_the_rest_of_its_quantum():
    """Slots of one token, 9 of them, a quantum of 4: A and B, of 3 and 2, fill them after two steps, and A needs one more.

    B is taken off after 2 tokens of its turn. When A has ended it has its other two, and then C has its turn, which came
    while B waited.
    """
    requests = [request("A", 3, 4), request("B", 2, 6, 0.1), request("C", 1, 3, 2.5)]
    steps, summary = played({"name": "ps", "quantum_tokens": 4}, requests, 9, 1, max_num_seqs=2)
    assert steps[3]["preempted"] == {"B": "recompute"}
    assert summary["requests"]["B"]["token_times_s"][:3] == [2.0, 3.0, 5.0]
    assert summary["requests"]["C"]["first_token_s"] == 5.0


@pytest.mark.parametrize("policy", [Las, Ps])
def test_a_quantum_is_at_least_a_token(policy):
    with pytest.raises(ValueError, match="quantum_tokens must be 1 or more tokens, not 0"):
        policy(quantum_tokens=0)
