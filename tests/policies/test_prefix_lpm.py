"""Longest prefix match first, by hand; blocks of 16 tokens."""

from types import SimpleNamespace

import pytest

from policies.lpm import Lpm
from tests.policies.scenarios import played

CACHING = {"enable_prefix_caching": True}


def prompt(name, ids, arrival_s=0.0, output_tokens=1, **more):
    return {"id": name, "prompt": ids, "output_tokens": output_tokens, "arrival_s": arrival_s, **more}


def order(requests, blocks=2000, cache=CACHING, policy=None, **scheduler):
    """Who came in, in order."""
    steps, summary = played({"name": "lpm", **(policy or {})}, requests, blocks, cache=cache, **scheduler)
    assert all(request["status"] == "finished" for request in summary["requests"].values())
    return [name for step in steps for name in step["admitted"]]


# --- the order

MATCHES = [
    prompt("warm", "0-63"),
    prompt("none", "1000-1063", 0.5),
    prompt("two blocks", "0-31,2000-2031", 0.6),
    prompt("four blocks", "0-63,3000-3015", 0.7),
    prompt("two blocks too", "0-31,4000-4031", 0.8),
]


def test_who_finds_most_of_its_prompt_cached_goes_first_then_who_came_first():
    admitted = order(MATCHES, max_num_seqs=1, policy={"defer_tokens": 0})
    assert admitted == ["warm", "four blocks", "two blocks", "two blocks too", "none"]


def test_without_a_prefix_cache_it_is_first_come_first_served():
    assert order(MATCHES, cache={}, max_num_seqs=1) == [request["id"] for request in MATCHES]


@pytest.mark.parametrize(
    ("max_queue", "then"),
    [
        (4, ["four blocks", "two blocks", "two blocks too", "none"]),
        (3, ["none", "four blocks", "two blocks", "two blocks too"]),
    ],
)
def test_above_so_many_waiting_it_is_first_come_first_served(max_queue, then):
    """Four wait when warm ends; where that is too many the first of them goes in, and three are left."""
    assert order(MATCHES, max_num_seqs=1, policy={"max_queue": max_queue, "defer_tokens": 0}) == ["warm", *then]


class Unmatched(SimpleNamespace):
    """A waiting request of which nobody may ask what is cached: that costs a look-up."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    state, preemptions = "waiting", 0

    @property
    def cached_tokens(self):
        raise AssertionError("looked up")


def test_a_long_queue_is_not_looked_up():
    policy, requests = Lpm(), [Unmatched() for _ in range(1000)]
    view = SimpleNamespace(
        num_waiting=1000, plan_number=1, limits=SimpleNamespace(enable_prefix_caching=True, block_size=16)
    )
    for request in requests:
        policy.on_wait(request, view)
    for request in requests[:-128]:
        assert policy.pick(view) is request
        request.state = "running"
        policy.on_admit(request, view)
        view.num_waiting -= 1
        view.plan_number += 1
    with pytest.raises(AssertionError, match="looked up"):
        policy.pick(view)


# --- the in-batch rule


@pytest.mark.parametrize(
    ("defer_tokens", "shared", "admitted"),
    [
        (32, "0-31", "ACDB"),  # 32 tokens are two blocks: B waits for A
        (32, "0-15", "ABCD"),  # one block is too short
        (33, "0-31", "ABCD"),  # three blocks are meant
        (16, "0-15", "ACDB"),
        (0, "0-31", "ABCD"),  # the rule is off
    ],
)
def test_of_those_who_share_an_uncached_prefix_the_first_goes_in_and_the_others_after_everybody_else(
    defer_tokens, shared, admitted
):
    requests = [
        prompt("A", f"{shared},100-163"),
        prompt("B", f"{shared},200-263"),
        prompt("C", "300-363"),
        prompt("D", "400-463"),
    ]
    assert order(requests, policy={"defer_tokens": defer_tokens}) == list(admitted)


def test_the_others_find_the_prefix_when_the_first_has_brought_it():
    """One seat: A runs in step 1, and then B finds 48 tokens and goes before C, which came before it."""
    requests = [prompt("A", "0-47,100-115"), prompt("C", "300-363"), prompt("B", "0-47,200-215")]
    steps, summary = played("lpm", requests, 100, cache=CACHING, max_num_seqs=1)
    assert [step["admitted"] for step in steps] == [["A"], ["B"], ["C"]]
    assert summary["requests"]["B"]["cached_tokens"] == 48


def test_who_has_more_than_that_cached_is_not_put_off():
    """Both share 80 tokens of which 48 are cached, more than 32; C, which came first, has none."""
    requests = [
        prompt("warm", "0-47,90-105"),
        prompt("C", "300-363", 1.0),
        prompt("A", "0-79,100-115", 1.0),
        prompt("B", "0-79,200-215", 1.0),
    ]
    assert order(requests) == ["warm", "A", "B", "C"]


def test_who_was_put_off_comes_in_at_last():
    """Ten that share a prefix, one seat, and a new request with content of its own every second for eight seconds."""
    group = [prompt(f"G{number}", f"0-31,{1000 + 100 * number}-{1031 + 100 * number}") for number in range(10)]
    others = [prompt(f"O{number}", f"{5000 + 100 * number}-{5063 + 100 * number}", number + 0.5) for number in range(8)]
    admitted = order(group + others, max_num_seqs=1)
    assert admitted[0] == "G0" and sorted(admitted) == sorted(request["id"] for request in group + others)
    assert admitted[1:10] == [f"G{number}" for number in range(1, 10)]  # they have found it: 32 tokens each


class Cold(SimpleNamespace):
    """A waiting request of one block, nothing of which is cached."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    state, preemptions, cached_tokens = "waiting", 0, 0


def test_who_was_rejected_puts_nobody_off():
    """X and Y share their content, Z, who came last, has its own; X is rejected, and Y is no longer behind Z."""
    policy, (x, z, y) = Lpm(), (Cold(prefix_keys=key) for key in ("s", "z", "s"))
    view = SimpleNamespace(num_waiting=3, plan_number=1, limits=SimpleNamespace(enable_prefix_caching=True, block_size=32))
    for request in (x, y, z):
        policy.on_wait(request, view)
    assert policy.pick(view) is x
    x.state, view.plan_number = "rejected", 2
    policy.on_wait(Cold(prefix_keys="t"), view)  # another arrival: the order is made anew
    assert policy.pick(view) is y


# --- ageing


def cold_and_hot(hot):
    """4096 tokens become cached in the first second; one seat, one request a step; a hot one comes in every step."""
    requests = [prompt("warm", "0-4095"), prompt("cold", "900000-900015", 0.5)]
    return requests + [
        prompt(f"hot{number}", f"0-4095,{10000 + number}-{10000 + number}", 0.6 + number) for number in range(hot)
    ]


@pytest.mark.parametrize(("age_tokens", "passes"), [(0, 20), (512, 8), (513, 8), (1024, 4), (4096, 1), (5000, 1)])
def test_starv_01_a_cold_request_is_passed_over_so_often_at_most(age_tokens, passes):
    """match + N * passes: with N = 512 the cold one has caught up with 4096 after 8 passes, and came first. Plain LPM lets
    in every hot one before it, as long as they come."""
    admitted = order(
        cold_and_hot(20),
        max_num_seqs=1,
        max_model_len=8192,
        max_num_batched_tokens=8192,
        policy={"age_tokens": age_tokens},
        blocks=1000,
    )
    assert admitted.index("cold") == 1 + passes


def test_plans_that_take_nobody_in_do_not_age():
    """One seat, held for 40 steps by the warm one, while 40 hot ones came: like the cold one they have not been passed over.
    Those who come after the 1st to the 7th of them has gone in are less than 8 passes behind; after the 8th, 8."""
    requests = cold_and_hot(60)
    requests[0]["output_tokens"] = 40
    admitted = order(
        requests, max_num_seqs=1, max_model_len=8192, max_num_batched_tokens=8192, policy={"age_tokens": 512}, blocks=1000
    )
    assert admitted.index("cold") == 1 + 40 + 7


@pytest.mark.parametrize("name", ["max_queue", "defer_tokens", "age_tokens"])
def test_parameters_that_make_no_sense(name):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, not -1"):
        Lpm(**{name: -1})
