"""Parallel sampling: blocks are shared until somebody writes."""

import pytest

from tests.core.drive import Drive, finished_with
from twin.core import Request


@pytest.mark.parametrize("samples, copies, blocks", [(2, [(1, 2)], 3), (4, [(1, 2), (1, 3), (1, 4)], 5)])
def test_the_last_writer_writes_in_place(samples: int, copies: list[tuple[int, int]], blocks: int) -> None:
    """cow-01: a prompt of 6 tokens in blocks of 4; n - 1 copies of the half-filled one (4 samples: 5 blocks, not 8)."""
    drive = Drive(Request("a", 0, 6, 3, samples=samples), num_blocks=16, block_size=4)
    first = drive.step()
    assert first.scheduled == {"a.0": 6} and first.during_blocks == 2
    assert {drive.pool.references(block) for block in (0, 1)} == {samples}
    second = drive.step()
    assert second.copies == copies and second.during_blocks == blocks
    assert second.scheduled == {f"a.{number}": 1 for number in range(samples)}
    assert drive.pool.references(0) == samples
    drive.drain()


def test_a_prompt_that_fills_its_blocks_is_never_copied() -> None:
    drive = Drive(Request("a", 0, 8, 3, samples=3), num_blocks=16, block_size=4)
    assert [step.copies for step in drive.drain()] == [[], [], []]


@pytest.mark.parametrize("samples, saving", [(2, 0.06), (4, 0.09), (6, 0.10)])
def test_sharing_saves_one_minus_one_nth_of_the_prompts_share(samples: int, saving: float) -> None:
    """ord-02: the prompt is 12 % of the KV of a sequence (Kwon et al., SOSP 2023, section 6.3: 6.09, 8.53, 9.79 %)."""
    drive = Drive(Request("a", 0, 12, 89, samples=samples), num_blocks=1000, block_size=1)
    peak = max(step.during_blocks for step in drive.drain())
    assert 1 - peak / (samples * 100) == pytest.approx(saving, abs=1e-12)


def test_samples_take_seats_before_they_exist() -> None:
    drive = Drive(Request("a", 0, 6, 2, samples=3), Request("b", 0, 6, 2), num_blocks=16, block_size=4, max_num_seqs=3)
    assert [step.admitted for step in drive.drain()] == [["a.0"], [], ["b"], []]


def test_a_sample_is_a_victim_like_any_other_and_comes_back_alone() -> None:
    """5 blocks for two samples of 4 + 13 - 1 = 16 tokens, which share one block: 1 + 2 * 3 = 7 are needed."""
    request = Request("a", 0, 4, 13, samples=2)
    drive = Drive(request, num_blocks=7, block_size=4)
    assert drive.pool.num_free == 7
    drive.step()
    drive.state.preempt(request.siblings[1], 0)
    assert drive.pool.references(0) == 1 and drive.pool.num_free == 6
    steps = drive.drain()
    assert steps[0].scheduled == {"a.0": 1, "a.1": 5}
    assert all(finished_with(sample, 13) for sample in request.siblings)


def test_never_counts_what_samples_cannot_share() -> None:
    """6 + 11 - 1 = 16 tokens are 4 blocks, 1 of them a full prompt block: 4 + (n - 1) * 3."""
    drive = Drive(num_blocks=9, block_size=4)
    assert drive.scheduler.add(Request("a", 0, 6, 11, samples=2)) is None
    assert drive.scheduler.add(Request("b", 0, 6, 11, samples=3)) == "16 tokens need 10 blocks, num_gpu_blocks=9"
    assert "need 257 seats" in (drive.scheduler.add(Request("c", 0, 1, 1, samples=257)) or "")


def test_tokens_in_a_tail_that_samples_share_are_held_once() -> None:
    """17 prompt tokens in blocks of 16: of the second block one slot is used, whoever else refers to it."""
    drive = Drive(Request("a", 0, 17, 3, samples=8), num_blocks=40, block_size=16)
    drive.step()
    state = drive.scheduler.state
    assert state.pool.num_blocks - state.pool.num_free == 2 and state.held_tokens() == 17
    drive.step()  # each has written one more: 16 shared, and 8 tails of 2
    assert state.pool.num_blocks - state.pool.num_free == 9 and state.held_tokens() == 16 + 8 * 2
    drive.drain()
