"""What a policy sees: always current, read-only, and never the true length."""

import pytest

from tests.core.drive import Drive
from twin.core import Request
from twin.policy import SystemView

SECRETS = ("output_tokens", "output_len", "stop_after", "settled_generated", "block_table", "request")


def test_a_policy_sees_no_true_length() -> None:
    """met-14"""
    view = Request("a", 0, 5, 7).view
    assert view.max_tokens is None and view.predicted_output is None
    assert not any(hasattr(view, name) for name in SECRETS)
    assert "7" not in repr(view)


def test_it_sees_what_the_request_itself_gave() -> None:
    assert Request("a", 0, 5, 7, max_tokens=100).view.max_tokens == 100
    assert Request("a", 0, 5, 7, predicted_output=6.5).view.predicted_output == 6.5


def test_views_are_read_only() -> None:
    drive = Drive(Request("a", 0, 5, 7), num_blocks=9)
    (view,) = drive.state.view.waiting
    for name in ("priority", "generated", "anything"):
        with pytest.raises(AttributeError):
            setattr(view, name, 1)
    with pytest.raises(AttributeError):
        drive.state.view.now = 1.0
    with pytest.raises((AttributeError, TypeError)):
        drive.state.view.limits.num_blocks = 10**6


def test_lists_of_the_view_are_copies() -> None:
    drive = Drive(Request("a", 0, 5, 7), num_blocks=9)
    drive.state.view.waiting.clear()
    assert drive.state.view.num_waiting == 1


def test_counts_are_always_current() -> None:
    """A prompt of 9 in blocks of 4 and chunks of 5, then a decode step."""
    request = Request("a", 0, 9, 7)
    drive = Drive(request, num_blocks=9, block_size=4, max_num_batched_tokens=5)
    view, system = request.view, drive.state.view

    def standing() -> tuple:
        return view.state, view.computed, view.generated, view.pending, view.blocks, view.private_blocks, system.free_blocks

    assert standing() == ("waiting", 0, 0, 9, 0, 0, 9)
    drive.step()
    assert standing() == ("running", 5, 0, 4, 2, 2, 7)
    drive.step()
    assert standing() == ("running", 9, 1, 1, 3, 3, 6)
    drive.step()
    assert standing() == ("running", 10, 2, 1, 3, 3, 6)
    assert (system.num_running, system.num_waiting, system.head) == (1, 0, None)
    drive.drain()
    assert view.state == "finished"


def test_cached_tokens_are_an_estimate_before_admission_and_a_fact_after() -> None:
    keys = ["k0", "k1"]
    drive = Drive(Request("a", 0, 8, 1, block_keys=keys), num_blocks=9, block_size=4, enable_prefix_caching=True)
    late = Request("b", 0, 12, 9, block_keys=keys)
    drive.scheduler.add(late)
    assert late.view.cached_tokens == 0
    drive.step()
    assert late.view.cached_tokens == 8
    assert drive.state.running[late] is None


def test_admission_blocks_count_hits_in_the_free_list_but_not_those_that_somebody_holds() -> None:
    """B has 12 tokens, 3 blocks of 4, of which A's two are cached: A holds them first, then they lie in the free list."""
    keys = ["k0", "k1"]
    drive = Drive(Request("a", 0, 8, 2, block_keys=keys), num_blocks=9, block_size=4, enable_prefix_caching=True)
    late = Request("b", 0, 12, 9, block_keys=keys)
    late.pool, late.state = drive.state.pool, "waiting"
    assert late.view.admission_blocks == 3
    drive.step()
    assert late.view.admission_blocks == 1
    drive.drain()
    assert late.view.cached_tokens == 8 and late.view.admission_blocks == 3


def test_admission_blocks_of_a_swapped_request_are_those_that_are_away_and_the_next() -> None:
    """A holds 8 tokens in 2 blocks; its ninth needs a third."""
    request = Request("a", 0, 7, 9)
    drive = Drive(request, num_blocks=9, block_size=4, num_host_blocks=9)
    drive.step()
    drive.step()
    drive.state.preempt(request, 0, "swap")
    assert request.view.state == "swapped" and request.view.host_blocks == 2
    assert request.view.admission_blocks == 3


def test_what_a_view_lacks_is_answered_with_what_it_has() -> None:
    request = Request("a", 0, 4, 3).view
    with pytest.raises(AttributeError, match="^a request has no promt_tokens; did you mean prompt_tokens[?]$"):
        request.promt_tokens  # noqa: B018
    with pytest.raises(AttributeError, match="^a request has no true_length_of_it; it has id, arrival_s, prompt_tokens, "):
        request.true_length_of_it  # noqa: B018
    with pytest.raises(AttributeError, match="^the view has no free_block; did you mean free_blocks[?]$"):
        SystemView(None).free_block  # noqa: B018
    assert not hasattr(request, "output_tokens")
