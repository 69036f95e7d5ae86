"""Who comes in, who waits, and who never can."""

import pytest

from tests.core.drive import Drive, finished_with, scheduled
from twin.core import Limits, PolicyError, Request, Rules
from twin.policy import ADMIT, NEVER, Policy


def test_what_can_never_fit_is_rejected_and_blocks_nobody() -> None:
    """live-01: 129 tokens need 9 blocks of 16, there are 8."""
    a, c = Request("a", 0, 16, 2), Request("c", 0, 16, 2)
    drive = Drive(a, num_blocks=8, block_size=16, max_num_batched_tokens=64)
    big = Request("big", 0, 129, 1)
    assert drive.scheduler.add(big) == "129 tokens need 9 blocks, num_gpu_blocks=8"
    assert big.state == "rejected"
    drive.scheduler.add(c)
    assert scheduled(drive.drain()) == [{"a": 16, "c": 16}, {"a": 1, "c": 1}]
    assert drive.now_s == 2 and drive.pool.num_free == 8


def test_the_usable_blocks_are_the_capacity() -> None:
    """live-03: a null block, if an engine has one, is not among num_blocks."""
    limits = Limits(8, block_size=16)
    assert limits.why_never(128, 1) is None
    assert limits.why_never(129, 1) is not None


def test_the_most_it_may_become_decides() -> None:
    """live-10: an end-of-sequence may come at 20, but 10 + 20 - 1 = 29 tokens need 8 blocks of 4."""
    drive = Drive(num_blocks=4, block_size=4)
    assert drive.scheduler.add(Request("a", 0, 10, 20)) == "29 tokens need 8 blocks, num_gpu_blocks=4"
    assert drive.scheduler.add(Request("b", 0, 10, 7)) is None
    assert drive.scheduler.add(Request("c", 0, 10, 7, max_tokens=8)) is not None
    assert len(drive.drain()) == 7


def test_without_chunked_prefill_a_prompt_above_the_budget_is_rejected() -> None:
    """live-14"""
    drive = Drive(num_blocks=999, max_num_batched_tokens=2048, max_model_len=4096, enable_chunked_prefill=False)
    served = Request("a", 0, 2048, 1)
    assert drive.scheduler.add(Request("b", 0, 2049, 1)) is not None
    assert drive.scheduler.add(served) is None
    assert scheduled(drive.drain()) == [{"a": 2048}]


def test_without_chunked_prefill_what_could_not_come_back_in_one_step_is_rejected() -> None:
    drive = Drive(num_blocks=99, max_num_batched_tokens=20, enable_chunked_prefill=False)
    assert drive.scheduler.add(Request("a", 0, 15, 6)) is None  # 15 + 6 - 1 = 20
    assert (
        drive.scheduler.add(Request("b", 0, 15, 7)) == "21 tokens exceed max_num_batched_tokens=20 without chunked prefill"
    )


def test_without_chunked_prefill_the_head_waits_and_all_behind_it() -> None:
    requests = [Request("a", 0, 10, 1), Request("b", 0, 12, 1), Request("c", 0, 5, 1)]
    drive = Drive(*requests, num_blocks=99, max_num_batched_tokens=20, enable_chunked_prefill=False)
    assert scheduled(drive.drain()) == [{"a": 10}, {"b": 12, "c": 5}]


def test_a_prompt_must_leave_room_for_one_token() -> None:
    limits = Limits(99, max_model_len=64)
    assert limits.why_never(63, 9) is None
    assert limits.why_never(64, 1) == "prompt of 64 tokens leaves no room in max_model_len=64"


def test_max_model_len_ends_a_request() -> None:
    request = Request("a", 0, 10, 50)
    drive = Drive(request, num_blocks=99, max_model_len=16)
    drive.drain()
    assert finished_with(request, 6)


def test_the_head_of_the_queue_blocks_those_behind_it() -> None:
    """Free blocks: 4. b needs 3 after a took 2, and c, which would fit, waits behind it."""
    requests = [Request("a", 0, 8, 2), Request("b", 0, 12, 1), Request("c", 0, 4, 1)]
    drive = Drive(*requests, num_blocks=4, block_size=4)
    assert [step.admitted for step in drive.drain()] == [["a"], [], ["b", "c"]]


def test_the_whole_of_it_must_fit_though_only_a_chunk_is_computed() -> None:
    drive = Drive(Request("a", 0, 4, 2), Request("b", 0, 16, 1), num_blocks=5, block_size=4, max_num_batched_tokens=8)
    steps = drive.drain()
    assert scheduled(steps) == [{"a": 4, "b": 4}, {"a": 1, "b": 7}, {"b": 5}]
    assert [step.during_blocks for step in steps] == [2, 5, 4]


def test_a_chunk_may_leave_one_prompt_token() -> None:
    """It is pending as a decode is, but it is prefill, and yields the first token."""
    request = Request("a", 0, 9, 2)
    drive = Drive(request, num_blocks=9, block_size=4, max_num_batched_tokens=8)
    drive.step()
    batch = drive.scheduler.plan(1.0)
    assert batch.features is not None and (batch.features.prefill_tokens, batch.features.decode_tokens) == (1, 0)
    drive.scheduler.commit(2.0)
    assert request.first_token_s == 2.0


def test_seats_fill_as_chunks_go() -> None:
    """live-13: four prompts of 2,000 tokens at 2,048 a step: all run in step 4."""
    requests = [Request(f"r{number}", 0, 2000, 50) for number in range(4)]
    drive = Drive(*requests, num_blocks=999, max_num_seqs=4, max_num_batched_tokens=2048)
    assert [len(step.scheduled) for step in drive.steps(4)] == [2, 3, 4, 4]


def test_the_threshold_spares_a_request_that_is_alone() -> None:
    limits = dict(num_blocks=99, long_prefill_token_threshold=10)
    assert Drive(Request("a", 0, 50, 1), **limits).step().scheduled == {"a": 50}
    drive = Drive(Request("a", 0, 50, 1), Request("b", 0, 50, 1), **limits)
    assert drive.step().scheduled == {"a": 10, "b": 10}


def test_without_chunked_prefill_the_threshold_is_what_must_fit() -> None:
    """vLLM cuts a long prompt by the threshold even so, and the head waits only for that much budget."""
    limits = dict(num_blocks=99, long_prefill_token_threshold=10, max_num_batched_tokens=25, enable_chunked_prefill=False)
    drive = Drive(Request("a", 0, 12, 1), Request("b", 0, 20, 1), **limits)
    assert scheduled(drive.drain()) == [{"a": 10, "b": 10}, {"a": 2, "b": 10}]


def test_the_watermark_holds_only_while_something_runs() -> None:
    limits = dict(num_blocks=9, block_size=1, watermark=0.3)  # int(0.3 * 10) = 3 blocks
    assert Drive(Request("a", 0, 9, 1), **limits).step().scheduled == {"a": 9}
    assert Drive(Request("a", 0, 2, 1), Request("b", 0, 5, 1), **limits).step().scheduled == {"a": 2}
    assert Drive(Request("a", 0, 2, 1), Request("b", 0, 4, 1), **limits).step().scheduled == {"a": 2, "b": 4}


def test_the_watermark_counts_a_null_block() -> None:
    assert Limits(99, watermark=0.01).watermark_blocks == 1
    assert Limits(98, watermark=0.01).watermark_blocks == 0


def test_a_policy_may_say_never() -> None:
    class Choosy(Policy):
        def admit(self, request, view):
            return NEVER if request.prompt_tokens > 10 else ADMIT

    long, short = Request("long", 0, 11, 1), Request("short", 0, 10, 1)
    drive = Drive(long, short, policy=Choosy(), num_blocks=9)
    assert scheduled(drive.drain()) == [{"short": 10}]
    assert (long.state, long.reason) == ("rejected", "policy Choosy answered NEVER")


@pytest.mark.parametrize("answer", [None, "yes", 2])
def test_an_answer_that_is_none_of_the_three_is_refused(answer: object) -> None:
    class Vague(Policy):
        def admit(self, request, view):
            return answer

    with pytest.raises(PolicyError, match=r"admit\(\) must answer ADMIT, LATER or NEVER"):
        Drive(Request("a", 0, 1, 1), policy=Vague(), num_blocks=9).step()


class ByPriority(Policy):
    def order(self, request, view):
        return request.priority


def test_a_newcomer_takes_the_seat_of_the_last_in_order() -> None:
    """preempt_for_seat, in that same step; plain priorities never do it."""
    for rules, expected in ((Rules(preempt_for_seat=True), {"urgent": 4}), (Rules(), {"later": 1})):
        later = Request("later", 0, 4, 3, priority=1)
        drive = Drive(later, policy=ByPriority(), rules=rules, num_blocks=9, block_size=4, max_num_seqs=1)
        drive.step()
        drive.scheduler.add(Request("urgent", 1, 4, 1, priority=0))
        assert drive.step().scheduled == expected
        drive.drain()
        assert finished_with(later, 3)


def test_a_newcomer_of_the_same_priority_takes_nobodys_seat() -> None:
    drive = Drive(
        Request("a", 0, 4, 3, priority=1),
        policy=ByPriority(),
        rules=Rules(preempt_for_seat=True),
        num_blocks=9,
        max_num_seqs=1,
    )
    drive.step()
    drive.scheduler.add(Request("b", 1, 4, 1, priority=1))
    assert drive.step().scheduled == {"a": 1}


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(num_blocks=0), "num_blocks must be at least 1, not 0"),
        (dict(num_blocks=8, block_size=True), "block_size must be an integer, not True"),
        (dict(num_blocks=8, max_num_seqs=2.0), "max_num_seqs must be an integer, not 2.0"),
        (dict(num_blocks=8, num_host_blocks=-1), "num_host_blocks must not be negative, not -1"),
        (dict(num_blocks=8, watermark=1.0), "0 <= watermark < 1, not 1.0"),
    ],
)
def test_limits_are_checked(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**wrong)


def test_rules_are_checked() -> None:
    with pytest.raises(ValueError, match="preemption_mode must be one of recompute, swap, auto, keep, not 'drop'"):
        Rules(preemption_mode="drop")
    with pytest.raises(ValueError, match="allocator must be one of paged, contiguous, not 'buddy'"):
        Rules(allocator="buddy")
