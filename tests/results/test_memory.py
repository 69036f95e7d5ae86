"""Usage and waste of the KV pool."""

import numpy as np
import pytest

from tests.results.records import record, requests, steps, two
from twin.results.summary import summarize


def test_met_11_cached_blocks_without_a_reader_are_not_used():
    """4 blocks referenced, 6 cached and unreferenced, 6 never used, all the time (after a step of no length)."""
    table = steps(start_s=[0.0, 0.0], duration_s=[0.0, 1.0], used_blocks=[4, 4], cached_blocks=[6, 6])
    found = summarize(record(requests(), table))
    assert found["kv_usage_mean"] == found["kv_usage_peak"] == 4 / 16
    assert found["kv_resident_mean"] == 10 / 16


def test_usage_is_what_each_step_held():
    found = summarize(two())
    assert found["kv_usage_mean"] == pytest.approx((4 + 9 + 9) / 3 / 16)
    assert found["kv_usage_peak"] == 9 / 16


def test_waste_is_slots_without_a_token():
    """Tokens 16, 33, 35 in 4, 9, 9 blocks of 4 slots: 84 of 88 token seconds."""
    assert summarize(two())["kv_waste_fraction"] == pytest.approx(1 - 84 / 88)


def test_a_row_of_equal_steps_counts_each_of_them():
    """A token for a second, then 2 to 15 in 14 steps of a second, all in 4 blocks of 4, which are then released."""
    table = steps(start_s=[0.0, 1.0], duration_s=[1.0, 14.0], repeat=[1, 14], prefill_tokens=[1, 0], decode_tokens=[0, 1],
                  used_blocks=[4, 0])  # fmt: skip
    told = {
        "block_steps": np.array([4, 56]),
        "token_steps": np.array([1, sum(range(2, 16))]),
        "peak_blocks": np.array([4, 4]),
    }
    found = summarize(record(requests(finish_s=[15.0]), table, **told))
    assert found["kv_usage_mean"] == pytest.approx(4 / 16)
    assert found["kv_waste_fraction"] == pytest.approx(1 - sum(range(1, 16)) / (16 * 15))


def test_blocks_given_back_in_the_step_that_took_them_count_where_the_record_tells():
    table = steps(used_blocks=[0, 0])
    rows = requests(finish_s=[2.0])
    assert summarize(record(rows, table))["kv_usage_mean"] == 0.0
    told = {"block_steps": np.array([8, 4]), "peak_blocks": np.array([8, 4])}
    found = summarize(record(rows, table, **told))
    assert found["kv_usage_mean"] == pytest.approx((8 + 4) / 2 / 16)
    assert found["kv_usage_peak"] == 0.5


def test_idle_time_counts_and_keeps_what_was_held():
    """A second from 0 to 8 blocks, two seconds at 8, a second back to 0."""
    table = steps(start_s=[0.0, 3.0], duration_s=[1.0, 1.0], used_blocks=[8, 0])
    found = summarize(record(requests(finish_s=[4.0]), table))
    assert found["kv_usage_mean"] == pytest.approx((4 + 16 + 4) / 4 / 16)


def test_usage_of_replicas_is_their_mean():
    table = steps(replica=[0, 1], step=[1, 1], start_s=[0.0, 0.0], used_blocks=[8, 0])
    assert summarize(record(requests(), table))["kv_usage_mean"] == pytest.approx(4 / 2 / 16)
