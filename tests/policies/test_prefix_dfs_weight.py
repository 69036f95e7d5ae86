"""The depth-first walk of the prefix tree, by hand; blocks of 16 tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dfs_weight import DfsWeight, depth_first
from tests.policies.scenarios import played


def prompt(name, ids, arrival_s=0.0):
    return {"id": name, "prompt": ids, "output_tokens": 1, "arrival_s": arrival_s}


def order(requests, caching=True, seats=99, **policy):
    """Who came in, in order."""
    cache = {"enable_prefix_caching": caching}
    steps, _ = played({"name": "dfs_weight", **policy}, requests, 200, cache=cache, max_num_seqs=seats)
    return [name for step in steps for name in step["admitted"]]


# --- the walk


def walked(prefixes):
    """By the book: a node, its branches by weight and first comer, those who hang at it."""

    def weight(depth, members):
        return len([1 for _, prefix in members if len(prefix) >= depth])

    def walk(depth, members):
        branches = {}
        for name, prefix in members:
            if len(prefix) > depth:
                branches.setdefault(prefix[depth], []).append((name, prefix))
        found = []
        for branch in sorted(branches.values(), key=len, reverse=True):  # stable: first comer first
            found += walk(depth + 1, branch)
        return found + [name for name, prefix in members if len(prefix) == depth]

    assert weight(0, prefixes) == len(prefixes)
    return walk(0, prefixes)


def test_the_busier_branch_goes_first_and_who_hangs_at_a_node_after_its_branches():
    """
    root -- a -- ab : 2, 5         the branch a has four, c has two
         |   +-- ad : 4
         |   +-- (a itself) : 1
         +-- c : 0, 3
    """
    prefixes = [(0, ["c"]), (1, ["a"]), (2, ["a", "ab"]), (3, ["c"]), (4, ["a", "ad"]), (5, ["a", "ab"]), (6, [])]
    assert depth_first(prefixes) == [2, 5, 4, 1, 0, 3, 6]


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=12))
def test_it_is_the_walk_of_the_tree(paths):
    """Keys are chained: each says all that came before it."""
    chained = [(number, [tuple(path[: length + 1]) for length in range(len(path))]) for number, path in enumerate(paths)]
    assert depth_first(chained) == walked(chained)


# --- what is in the cache


def test_those_who_share_what_is_cached_run_together_and_who_has_nothing_cached_last():
    """Of W's blocks three are found by Q1 and Q2, one by P."""
    requests = [
        prompt("W", "0-47,90-105"),
        prompt("K", "500-531", 0.1),
        prompt("P", "0-15,600-615", 0.2),
        prompt("Q1", "0-47,700-715", 0.3),
        prompt("K2", "500-531", 0.4),
        prompt("Q2", "0-47,800-815", 0.5),
    ]
    assert order(requests) == ["W", "Q1", "Q2", "P", "K", "K2"]


TWO_PREFIXES = [
    prompt("U", "0-31,90-105"),
    prompt("V", "200-231,290-305"),
    prompt("U1", "0-31,400-415", 0.1),
    prompt("V1", "200-231,500-515", 0.2),
    prompt("V2", "200-231,600-615", 0.3),
]


def test_the_branch_with_most_requests_goes_first_though_another_came_before():
    assert order(TWO_PREFIXES) == ["U", "V", "V1", "V2", "U1"]


def test_weights_are_of_those_who_wait_when_the_plan_is_made():
    """One seat: after U only U's prefix is cached. When V1 is in, one waits in each branch, and U1 came first."""
    assert order(TWO_PREFIXES, seats=1) == ["U", "U1", "V", "V1", "V2"]
    late = [{**request, "arrival_s": request["arrival_s"] + 1.5} for request in TWO_PREFIXES[2:]]
    assert order(TWO_PREFIXES[:2] + late, seats=1) == ["U", "V", "V1", "U1", "V2"]


# --- whole prompts


REQUESTS = [
    prompt("first", "9000-9031"),
    prompt("A1", "0-31,100-115", 0.1),
    prompt("B1", "200-231,300-315", 0.2),
    prompt("C", "400-447", 0.3),
    prompt("B2", "200-231,500-515", 0.4),
    prompt("A2", "0-31,600-615", 0.5),
    prompt("A3", "0-31,700-715", 0.6),
]


def test_by_prompts_those_who_will_share_stand_together_from_the_start():
    assert order(REQUESTS, tree="prompts") == ["first", "A1", "A2", "A3", "B1", "B2", "C"]


def test_by_what_is_cached_they_do_when_one_of_them_has_run():
    """In one plan nobody finds anything; with one seat A1, who came first, brings its prefix, and B1 does so for B2."""
    assert order(REQUESTS) == [request["id"] for request in REQUESTS]
    assert order(REQUESTS, seats=1) == ["first", "A1", "A2", "A3", "B1", "B2", "C"]


@pytest.mark.parametrize("policy", [{"max_queue": 0}, {"caching": False}])
def test_with_too_many_waiting_or_no_cache_it_is_first_come_first_served(policy):
    assert order(REQUESTS, tree="prompts", **policy) == [request["id"] for request in REQUESTS]


def test_a_negative_queue_makes_no_sense():
    with pytest.raises(ValueError, match="max_queue must be 0 or more, not -1"):
        DfsWeight(max_queue=-1)
