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


def test_usage_is_linear_between_the_ends_of_rows():
    found = summarize(two())
    assert found["kv_usage_mean"] == pytest.approx((2 + 6.5 + 4.5) / 3 / 16)
    assert found["kv_usage_peak"] == 9 / 16


def test_waste_is_slots_without_a_token():
    """Tokens 0-16-33-0 in slots 0-16-36-0: 49 of 52 token seconds."""
    assert summarize(two())["kv_waste_fraction"] == pytest.approx(1 - 49 / 52)


def test_waste_counts_what_a_row_held_before_it_let_go():
    """One token for a second, then up to 15 in 14 seconds, when all is released: 1 + 8 * 14 of 16 slots * 15 s."""
    table = steps(start_s=[0.0, 1.0], duration_s=[1.0, 14.0], repeat=[1, 14], prefill_tokens=[1, 0], decode_tokens=[0, 1],
                  used_blocks=[4, 0])  # fmt: skip
    made = record(requests(finish_s=[15.0]), table, during_blocks=np.array([4, 4]), held_tokens=np.array([1, 0]))
    assert summarize(made)["kv_waste_fraction"] == pytest.approx(1 - (1 + 8 * 14) / (16 * 15))


def test_blocks_given_back_in_the_step_that_took_them_count_where_the_record_tells():
    table = steps(used_blocks=[0, 0])
    rows = requests(finish_s=[2.0])
    assert summarize(record(rows, table))["kv_usage_mean"] == 0.0
    found = summarize(record(rows, table, during_blocks=np.array([8, 4])))
    assert found["kv_usage_mean"] == pytest.approx((8 + 4) / 2 / 16)
    assert found["kv_usage_peak"] == 0.5


def test_a_run_of_equal_steps_fills_the_pool_evenly_and_then_lets_go():
    """From 4 blocks to 8 over two seconds, when all are released; a second later the run ends."""
    table = steps(start_s=[0.0, 1.0], duration_s=[1.0, 2.0], repeat=[1, 2], used_blocks=[4, 0])
    made = record(requests(finish_s=[4.0]), table, during_blocks=np.array([4, 8]))
    assert summarize(made)["kv_usage_mean"] == pytest.approx((4 + 6 * 2 + 0) / 4 / 16)


def test_idle_time_counts_and_keeps_what_was_held():
    """A second from 0 to 8 blocks, two seconds at 8, a second back to 0."""
    table = steps(start_s=[0.0, 3.0], duration_s=[1.0, 1.0], used_blocks=[8, 0])
    found = summarize(record(requests(finish_s=[4.0]), table))
    assert found["kv_usage_mean"] == pytest.approx((4 + 16 + 4) / 4 / 16)


def test_usage_of_replicas_is_their_mean():
    table = steps(replica=[0, 1], step=[1, 1], start_s=[0.0, 0.0], used_blocks=[8, 0])
    assert summarize(record(requests(), table))["kv_usage_mean"] == pytest.approx(4 / 2 / 16)
