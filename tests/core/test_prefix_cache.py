"""Content that is found again: what counts as cached, for whom, and for how long."""

import pytest

from tests.core.drive import Drive, finished_with
from twin.core import Request

KEYS = ["k0", "k1", "k2", "k3"]


def caching(*requests: Request, **limits: int) -> Drive:
    return Drive(*requests, enable_prefix_caching=True, **limits)


@pytest.mark.parametrize("prompt, cached", [(40, 32), (33, 32), (32, 16), (31, 16), (16, 0), (15, 0)])
def test_one_token_at_least_is_left_to_compute(prompt: int, cached: int) -> None:
    """pc-01: the same prompt twice, one after the other, blocks of 16."""
    first, second = (Request(name, 0, prompt, 1, block_keys=KEYS[: prompt // 16]) for name in "ab")
    drive = caching(first, num_blocks=8, block_size=16)
    drive.drain()
    drive.scheduler.add(second)
    assert drive.step().scheduled == {"b": prompt - cached}
    assert (first.cached_tokens, second.cached_tokens) == (0, cached)


def test_content_that_was_overwritten_is_not_found() -> None:
    """pc-05: two blocks; a, then b over it, then a again."""
    drive = caching(num_blocks=2, block_size=4)
    for name, keys in (("r1", ["a0", "a1"]), ("r2", ["b0", "b1"]), ("r3", ["a0", "a1"])):
        request = Request(name, 0, 8, 1, block_keys=keys)
        drive.scheduler.add(request)
        drive.drain()
        assert request.cached_tokens == 0


def test_equal_prompts_of_one_step_share() -> None:
    """pc-06: the second finds the first block, registered when the first request's slots were allocated."""
    drive = caching(*(Request(name, 0, 8, 1, block_keys=KEYS[:2]) for name in "ab"), num_blocks=8, block_size=4)
    step = drive.step()
    assert step.scheduled == {"a": 8, "b": 4} and step.during_blocks == 3
    assert drive.pool.num_free == 8


def test_hits_of_a_resumed_request_are_counted_apart() -> None:
    """pc-07: b is preempted in step 3 and finds its first block, 4 tokens, when it resumes."""
    a, b = Request("a", 0, 7, 6), Request("b", 0, 7, 6)
    drive = caching(a, b, num_blocks=4, block_size=4)
    steps = drive.drain()
    assert [number for number, step in enumerate(steps, 1) if step.preempted] == [3]
    assert steps[6].scheduled == {"b": 5}  # 9 tokens less 4
    state = drive.state
    assert (state.cache_queries, state.cache_hits, state.recompute_hits) == (14, 0, 4)
    assert finished_with(a, 6) and finished_with(b, 6)


def test_a_request_that_waits_is_counted_once() -> None:
    """pc-08: 32 of 40 tokens are cached, but for five plans the third block is not there."""
    drive = caching(Request("x", 0, 32, 1, block_keys=KEYS[:2]), num_blocks=4, block_size=16)
    drive.drain()
    drive.scheduler.add(Request("y", 0, 17, 7))  # two blocks, for seven steps
    drive.step()
    state = drive.state
    before = state.cache_queries, state.cache_hits
    late = Request("z", 0, 40, 1, block_keys=KEYS[:2])
    drive.scheduler.add(late)
    assert [step.admitted for step in drive.steps(7)] == [[]] * 6 + [["z"]]
    assert (state.cache_queries - before[0], state.cache_hits - before[1]) == (40, 32)
    assert late.cached_tokens == 32


def test_what_is_evicted_while_a_request_waits_is_not_taken_for_cached() -> None:
    """pc-10: z would find 2 blocks, but lacks a third; y grows over both before z is asked again."""
    drive = caching(Request("x", 0, 8, 1, block_keys=KEYS[:2]), num_blocks=4, block_size=4)
    drive.drain()
    y, z = Request("y", 0, 5, 12), Request("z", 0, 12, 1, block_keys=KEYS[:3])
    drive.scheduler.add(y)
    drive.step()
    drive.scheduler.add(z)
    assert z.view.cached_tokens == 8
    assert drive.step().admitted == []
    while not drive.step().admitted:
        pass
    assert z.cached_tokens == 0


def test_free_cached_and_used_blocks() -> None:
    """met-11: 16 blocks, 4 referenced, 6 cached, 6 never used: kv_usage 4 / 16, resident 10 / 16."""
    drive = caching(Request("x", 0, 24, 1, block_keys=[f"x{index}" for index in range(6)]), num_blocks=16, block_size=4)
    drive.drain()
    drive.scheduler.add(Request("y", 0, 16, 1))
    drive.scheduler.plan(1.0)
    pool = drive.pool
    assert (pool.num_blocks - pool.num_free, pool.num_cached_free, pool.num_free - pool.num_cached_free) == (4, 6, 6)


def test_a_shared_block_is_cached_once() -> None:
    """blk-06: two requests share 3 blocks, and both end."""
    drive = caching(*(Request(name, 0, 13, 1, block_keys=KEYS[:3]) for name in "ab"), num_blocks=16, block_size=4)
    assert drive.step().during_blocks == 5
    assert drive.pool.num_free == 16 and drive.pool.num_cached_free == 3


def test_blank_blocks_are_given_out_first_and_then_the_longest_unused() -> None:
    drive = caching(Request("a", 0, 10, 1, block_keys=KEYS[:2]), num_blocks=6, block_size=4)
    drive.step()  # blocks 0 and 1 are filled, 2 is not
    assert drive.pool.free_order() == [2, 3, 4, 5, 1, 0]


def test_the_oldest_living_copy_answers() -> None:
    """b computes the same content in blocks of its own, since its whole prompt may not be cached."""
    a, b = Request("a", 0, 4, 9, block_keys=KEYS[:1]), Request("b", 0, 4, 1, block_keys=KEYS[:1])
    drive = caching(a, b, num_blocks=8, block_size=4)
    drive.step()
    assert a.block_table == [0] and drive.pool.oldest["k0"] == 0
    assert drive.pool.younger == {"k0": [1]}
    drive.drain()
    c = Request("c", 0, 5, 1, block_keys=KEYS[:1])
    drive.scheduler.add(c)
    drive.scheduler.plan(0.0)
    assert c.block_table[0] == 0


def test_a_hit_in_the_free_list_is_taken_from_it() -> None:
    """Both blocks of b are free, and cached; the third is not there, so b must wait."""
    drive = caching(Request("a", 0, 8, 1, block_keys=KEYS[:2]), num_blocks=3, block_size=4)
    drive.drain()
    drive.scheduler.add(Request("hog", 0, 4, 1))
    drive.scheduler.add(Request("b", 0, 9, 1, block_keys=KEYS[:2]))
    assert [step.scheduled for step in drive.drain()] == [{"hog": 4}, {"b": 1}]


def test_tokens_given_back_take_their_hashes_along() -> None:
    """Two full blocks were promised to b in the very step that preempts it: nobody may find them."""
    a = Request("a", 0, 8, 4)
    b = Request("b", 0, 16, 1, block_keys=KEYS)
    drive = caching(a, b, num_blocks=6, block_size=4, max_num_batched_tokens=16)
    drive.scheduler.plan(0.0)
    assert b.settled_computed == 8
    drive.scheduler.commit(1.0)
    assert set(drive.pool.oldest) == {"k0", "k1"}
    drive.state.grow(b, 16)  # as the running phase does for the next chunk, before it finds b to be the victim
    assert set(drive.pool.oldest) == set(KEYS)
    drive.state.preempt(b, 8)
    assert set(drive.pool.oldest) == {"k0", "k1"}
    drive.drain()
    assert finished_with(b, 1)


def test_a_shared_block_that_only_a_sample_has_registered_is_found_when_the_other_gives_it_back() -> None:
    """a.1 is preempted and registers the prompt; a.0, which never did, ends. Then a.1 takes both from the free list."""
    hog = Request("hog", 0, 7, 6)
    drive = caching(hog, Request("a", 0, 8, 4, samples=2), num_blocks=6, block_size=4, max_num_batched_tokens=16)
    steps = drive.steps(4)
    assert steps[2].preempted == {"a.1": "recompute"} and steps[3].ended == ["a.0"]
    assert drive.pool.num_free == 3
    back = drive.step()
    assert back.admitted == ["a.1"] and back.scheduled == {"hog": 1, "a.1": 2}
    assert drive.pool.num_free == 0  # hog's three, the two that were found, and one of its own
    drive.drain()
