"""Pauses inside a request, on paper: blocks of 4 tokens, one second a step. A has 4 prompt and 4 output tokens and pauses
after its second token, at 2 s, for 3 s; what it has computed by then is 5 tokens in 2 blocks."""

from typing import Any

import pytest

from tests.core.drive import Drive, finished_with
from tests.policies.scenarios import free, played, request, scheduled
from twin.core.request import Request

MODES = ("recompute", "swap", "keep")
HOST = {"num_cpu_blocks": 8}


def paused(mode: str, pauses: list[list[float]] | None = None, asynchronous: bool = False, **more: Any) -> tuple[Any, Any]:
    """A alone."""
    cache = HOST | more.pop("cache", {})
    a = request("A", 4, 4, pauses=pauses or [[2, 3]], **more)
    return played({"name": "fcfs", "pause": mode}, [a], 8, 4, cache, async_scheduling=asynchronous)


def outputs(steps: list[dict[str, Any]]) -> list[list[str]]:
    return [sorted(step["outputs"]) for step in steps]


def tables(steps: list[dict[str, Any]], name: str) -> list[Any]:
    return [step["block_tables"].get(name) for step in steps]


# --- one request


@pytest.mark.parametrize(
    "mode, tokens, table, free_blocks",
    [("recompute", 6, [], 8), ("swap", 1, [None, None], 8), ("keep", 1, [0, 1], 6)],
)
def test_its_blocks_go_back_or_to_the_host_or_stay(mode: str, tokens: int, table: list[Any], free_blocks: int) -> None:
    steps, summary = paused(mode)
    assert scheduled(steps) == [{"A": 4}, {"A": 1}, {"A": tokens}, {"A": 1}]
    assert tables(steps, "A")[1] == table and free(steps)[1] == free_blocks
    assert summary["requests"]["A"]["token_times_s"] == [1, 2, 6, 7]  # it came back at 5 s
    assert summary["requests"]["A"]["recomputed_tokens"] == (5 if mode == "recompute" else 0)
    assert summary["preemptions"] == 0 and summary["free_blocks"] == 8


@pytest.mark.parametrize("mode, tokens", [("recompute", 6), ("swap", 1), ("keep", 1)])
def test_asynchronous_scheduling_does_not_foresee_it_and_drops_the_token_in_flight(mode: str, tokens: int) -> None:
    steps, summary = paused(mode, asynchronous=True)
    assert scheduled(steps) == [{"A": 4}, {"A": 1}, {"A": 1}, {"A": tokens}, {"A": 1}]
    assert outputs(steps) == [["A"], ["A"], [], ["A"], ["A"]]
    assert summary["requests"]["A"]["token_times_s"] == [1, 2, 6, 7]


@pytest.mark.parametrize("mode, tokens", [("recompute", 6), ("swap", 1), ("keep", 1)])
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_the_dropped_token_does_not_come_either_where_the_request_is_back_before_it(
    mode: str, tokens: int, seconds: float
) -> None:
    """At 2 s the third step is in flight, with a token that nobody wants; the fourth follows it at 3 s."""
    steps, summary = paused(mode, [[2, seconds]], asynchronous=True)
    assert scheduled(steps) == [{"A": 4}, {"A": 1}, {"A": 1}, {"A": tokens}, {"A": 1}]
    assert outputs(steps) == [["A"], ["A"], [], ["A"], ["A"]]
    assert summary["requests"]["A"]["token_times_s"] == [1, 2, 4, 5]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("mode, tokens", [("recompute", 9), ("swap", 4), ("keep", 4)])
def test_the_answer_of_the_tool_is_computed_as_a_prompt_is(mode: str, tokens: int, asynchronous: bool) -> None:
    """Three tokens more: 4 + 2 + 3 are known, 5 were computed."""
    steps, summary = paused(mode, [[2, 3, 3]], asynchronous)
    assert [step["scheduled"]["A"] for step in steps][-2:] == [tokens, 1]
    assert summary["requests"]["A"]["token_times_s"] == [1, 2, 6, 7]


def test_the_prefix_cache_may_still_know_what_was_given_up() -> None:
    """Of 5 computed tokens the first block's 4 are found; of the 2 computed now one was computed before."""
    steps, summary = paused("recompute", cache={"enable_prefix_caching": True})
    assert scheduled(steps)[2] == {"A": 2} and summary["recompute_hit_tokens"] == 4
    assert summary["requests"]["A"]["recomputed_tokens"] == 1


@pytest.mark.parametrize("returned, cached", [(0, 8), (4, 4)])
def test_beyond_what_a_tool_returned_the_content_is_its_own(returned: int, cached: int) -> None:
    """The keys name prompt and output together, four tokens each; the answer comes in the middle of the second block. What
    is only its own is entered among what is cached when it pauses again."""
    keys = ("prompt", "prompt and output", "... and more output")
    a = Request("a", 0, 4, 8, block_keys=keys, pauses=((2, 3.0, returned), (6, 3.0, 0)))
    drive = Drive(a, num_blocks=8, block_size=4, enable_prefix_caching=True)
    for _ in range(2):
        drive.drain()
        assert a.state == "paused"
        drive.scheduler.resume(a)
    drive.drain()
    b = Request("b", 9, 12, 1, block_keys=keys)
    drive.scheduler.add(b)
    drive.step()
    assert finished_with(a, 8) and b.cached_tokens == cached


def test_a_request_pauses_as_often_as_it_says_but_not_at_its_end_or_beyond() -> None:
    steps, summary = paused("keep", [[1, 2], [2, 2], [4, 100], [9, 100]])
    assert summary["requests"]["A"]["token_times_s"] == [1, 4, 7, 8]


def test_other_requests_have_the_seat_meanwhile() -> None:
    """One seat: B, who came at 0 as well, runs from 2 s on; A is back at 3 s, in front of C."""
    requests = [request("A", 4, 3, pauses=[[2, 1]]), request("B", 4, 2), request("C", 4, 1)]
    steps, _ = played({"name": "fcfs", "pause": "keep"}, requests, 8, 4, max_num_seqs=1)
    assert [next(iter(step)) for step in scheduled(steps)] == ["A", "A", "B", "B", "A", "C"]


# --- aborts, limits


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_aborted_while_it_pauses_it_gives_everything_back(mode: str, asynchronous: bool) -> None:
    steps, summary = paused(mode, [[2, 10]], asynchronous, abort_s=4.0)
    a = summary["requests"]["A"]
    assert (a["status"], a["token_times_s"]) == ("aborted", [1, 2])
    assert summary["free_blocks"] == 8


def test_what_tools_return_counts_when_a_request_is_found_too_large() -> None:
    """4 + 30 + 4 - 1 tokens in blocks of 4: 10 of 8; a pause that never comes counts nothing."""
    _, summary = paused("keep", [[2, 3, 30]])
    assert summary["requests"]["A"]["status"] == "rejected" and "need 10 blocks" in summary["requests"]["A"]["reason"]
    _, summary = paused("keep", [[4, 3, 30]])
    assert summary["requests"]["A"]["status"] == "finished"


@pytest.mark.parametrize(
    "pauses, samples, message",
    [
        (((0, 1.0, 0),), 1, "after 0 tokens, at least 1"),
        (((3, 1.0, 0), (3, 1.0, 0)), 1, "after 3 tokens, at least 4"),
        (((3, -1.0, 0),), 1, "-1.0 s"),
        (((3, 1.0, -2),), 1, "returns -2 tokens"),
        (((3, 1.0, 0),), 2, "n=2 samples"),
    ],
)
def test_what_cannot_be_a_pause_is_refused(pauses: Any, samples: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Request("a", 0, 4, 9, pauses=pauses, samples=samples)


# --- others need the blocks


@pytest.mark.parametrize("host_blocks, comes_back_with", [(1, 1), (0, 5)])
def test_kept_blocks_go_to_the_host_or_are_given_up_when_somebody_needs_them(host_blocks: int, comes_back_with: int) -> None:
    """3 blocks. A keeps one while it pauses from 1 s to 10 s; B's ninth token needs the third: at 2 s."""
    requests = [request("A", 4, 2, pauses=[[1, 9]]), request("B", 8, 4, 1.0)]
    steps, summary = played({"name": "fcfs", "pause": "keep"}, requests, 3, 4, {"num_cpu_blocks": host_blocks})
    assert scheduled(steps) == [{"A": 4}, {"B": 8}, {"B": 1}, {"B": 1}, {"B": 1}, {"A": comes_back_with}]
    assert tables(steps, "A")[1] == [0] and tables(steps, "A")[2] == ([None] if host_blocks else [])
    assert summary["requests"]["A"]["token_times_s"] == [1, 11] and summary["preemptions"] == 0


def test_the_last_to_pause_loses_its_kept_blocks_first() -> None:
    """4 blocks. A and B keep one each from 1 s and 2 s on; C needs three."""
    requests = [request("A", 4, 2, pauses=[[1, 90]]), request("B", 3, 3, 0, pauses=[[2, 90]]), request("C", 9, 1, 3.0)]
    steps, _ = played({"name": "fcfs", "pause": "keep"}, requests, 4, 4)
    c = steps[2]
    assert c["scheduled"] == {"C": 9} and tables([c], "A") == [[0]] and tables([c], "B") == [[]]


def test_shared_blocks_that_a_swapped_one_leaves_on_the_device_lock_nobody_out() -> None:
    """5 blocks. A pauses while B shares its first two blocks: these stay. B ends; C needs all five, and nothing runs."""
    a, b = request("A", 9, 2, pauses=[[1, 99]]) | {"prompt": "0-7,20"}, request("B", 9, 2) | {"prompt": "0-7,30"}
    cache = {"enable_prefix_caching": True, "num_cpu_blocks": 8}
    steps, summary = played({"name": "fcfs", "pause": "swap"}, [a, b, request("C", 20, 1, 5.0)], 5, 4, cache)
    assert tables(steps, "A")[:2] == [[0, 1, None], [0, 1, None]]
    assert steps[2]["scheduled"] == {"C": 20} and steps[2]["start_s"] == 5
    assert summary["requests"]["A"]["token_times_s"] == [1, 101]
