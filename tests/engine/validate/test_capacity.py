"""Capacity by hand: tokens while somebody waits, over the tokens of a mean request."""

import numpy as np
import pytest

from engine.validate.capacity import capacity
from twin.results.record import Record


def burst(waiting: list[int]) -> Record:
    """Four requests, each of 20 tokens computed; four steps: three of 2 s with 24 tokens, then one of 4 s with 8."""
    rows = len(waiting)
    requests = {
        "request_id": [str(row) for row in range(4)], "arrival_s": np.zeros(4), "prompt_tokens": np.full(4, 11),
        "output_tokens": np.full(4, 10), "generated_tokens": np.full(4, 10), "status": ["finished"] * 4,
        "first_scheduled_s": np.zeros(4), "first_token_s": np.ones(4), "finish_s": np.full(4, 10.0),
    }  # fmt: skip
    steps = {
        "step": np.arange(1, rows + 1), "start_s": np.array([0.0, 2.0, 4.0, 6.0]), "duration_s": np.array([2.0, 2, 2, 4]),
        "prefill_tokens": np.array([24, 20, 0, 0]), "decode_tokens": np.array([0, 4, 24, 8]), "sequences": np.full(rows, 2),
        "waiting": np.array(waiting), "running": np.full(rows, 2), "used_blocks": np.zeros(rows),
        "free_blocks": np.ones(rows),
    }  # fmt: skip
    return Record(requests, steps, np.array([]), np.array([]), num_blocks=1, block_size=16)


def test_the_end_of_the_burst_where_nobody_waits_any_more_does_not_count():
    """72 tokens in the 6 s until the queue was empty: 12 tokens/s, 0.6 requests of 20 tokens."""
    found = capacity(burst([2, 1, 1, 0]))
    assert (found.tokens_per_s, found.busy_s, found.waited) == (12.0, 6.0, True)
    assert found.requests_per_s == pytest.approx(0.6)


def test_where_nobody_waits_it_is_the_whole_burst():
    """80 tokens in 10 s."""
    found = capacity(burst([0, 0, 0, 0]))
    assert found.requests_per_s == pytest.approx(0.4) and not found.waited
