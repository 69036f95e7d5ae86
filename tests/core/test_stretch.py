"""Where a stretch of equal steps has to end: `horizon`."""

from typing import Any

from tests.core.drive import Drive
from twin.core import Request, Rules
from twin.policy import Policy


def horizon(drive: Drive, steps: int = 1) -> int:
    drive.steps(steps)
    return drive.scheduler.horizon()


def test_nothing_runs() -> None:
    assert Drive(num_blocks=9).scheduler.horizon() == 0


def test_up_to_a_finish() -> None:
    """10 tokens: the first came with the prompt; 9 steps are left, and the last of them ends it."""
    assert horizon(Drive(Request("a", 0, 4, 10), Request("b", 0, 4, 12), num_blocks=99)) == 9


def test_up_to_a_shortage() -> None:
    """Two prompts of 4 in 5 blocks of 4: steps 2-5 take one block each, steps 6-9 would need two, and one is left."""
    drive = Drive(Request("a", 0, 4, 12), Request("b", 0, 4, 12), num_blocks=5, block_size=4)
    assert horizon(drive) == 4


def test_never_while_a_prompt_is_computed() -> None:
    drive = Drive(Request("a", 0, 4, 12), Request("b", 0, 40, 12), num_blocks=99, max_num_batched_tokens=20)
    assert [horizon(drive) for _ in range(3)] == [0, 0, 11 - 2]


def test_on_while_the_head_is_refused_for_a_seat() -> None:
    drive = Drive(Request("a", 0, 4, 10), Request("b", 0, 4, 10), num_blocks=99, max_num_seqs=1)
    assert horizon(drive, 2) == 8


def test_up_to_the_step_that_fills_a_block_which_the_head_would_share() -> None:
    """b lacks one block of 3 until a fills its second one, which b shares: with a's eighth token, computed in step 5."""
    content = ["k0", "k1", "k2"]
    a, b = Request("a", 0, 4, 9, block_keys=content), Request("b", 1, 12, 1, block_keys=content)
    drive = Drive(a, num_blocks=3, block_size=4, enable_prefix_caching=True)
    drive.step()
    drive.scheduler.add(b)
    drive.step()
    assert drive.scheduler.horizon() == 2  # tokens 6 and 7; the step that computes the eighth admits b
    assert [step.admitted for step in drive.steps(3)] == [[], [], ["b"]]
    assert b.cached_tokens == 8


def test_never_for_a_policy_that_is_not_steady() -> None:
    class Restless(Policy):
        steady = False

    assert horizon(Drive(Request("a", 0, 4, 10), policy=Restless(), num_blocks=99)) == 0


def test_up_to_the_end_of_a_reservation() -> None:
    class Six(Policy):
        def reserve(self, request, view):
            return 6

    limits: dict[str, Any] = dict(num_blocks=20, block_size=1)
    drive = Drive(Request("a", 0, 4, 9), policy=Six(), rules=Rules(allocator="contiguous"), **limits)
    assert horizon(drive) == 2
