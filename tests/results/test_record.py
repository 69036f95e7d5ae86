"""The record: columns, derived durations, and what must hold of it."""

import numpy as np
import pytest

from tests.results.records import NAN, queue, record, requests, steps, two
from twin.results.columns import REQUESTS, STEPS


def test_columns_come_out_in_the_promised_order_and_type():
    made = two()
    assert list(made.requests) == list(REQUESTS) and list(made.steps) == list(STEPS)
    assert made.requests["arrival_s"].dtype == np.float64 and made.requests["prompt_tokens"].dtype == np.int64
    assert made.requests["user"].tolist() == ["ann", None, "bob"]


def test_met_01_tpot_divides_by_what_was_generated():
    made = record(requests(output_tokens=[512], generated_tokens=[100], first_token_s=[1.0], finish_s=[10.9]))
    assert made.requests["tpot_s"][0] == pytest.approx(0.1)


def test_met_03_one_token_has_no_time_per_output_token():
    made = record(requests(arrival_s=[0.0, 0.5], first_token_s=[1.0, 2.0], finish_s=[1.0, 2.0]))
    assert np.isnan(made.requests["tpot_s"]).all()
    assert made.requests["ttft_s"].tolist() == made.requests["e2e_s"].tolist() == [1.0, 1.5]


def test_parallel_samples_share_one_time_per_output_token():
    made = record(requests(n=[4], output_tokens=[11], generated_tokens=[44], first_token_s=[1.0], finish_s=[3.0]))
    assert made.requests["tpot_s"][0] == pytest.approx(0.2)
    made.check()


def test_an_unfinished_request_has_a_first_token_but_no_end():
    made = record(requests(status=["unfinished"], output_tokens=[9], generated_tokens=[3], finish_s=[NAN]))
    assert made.requests["ttft_s"][0] == 1.0 and np.isnan(made.requests["e2e_s"][0])


def test_a_column_missing_misspelt_or_short_is_named():
    with pytest.raises(ValueError, match="the column arrival_s is missing"):
        record({"request_id": ["a"]})
    with pytest.raises(ValueError, match="no such column: arival_s"):
        record(requests(arival_s=[0.0]))
    with pytest.raises(ValueError, match="user has 1 of 2 rows"):
        record(requests(arrival_s=[0.0, 1.0], user=["a"]))


def test_good_records_pass():
    two().check()
    queue(200).check()


@pytest.mark.parametrize("columns, complaint", [
    ({"arrival_s": [2.0]}, "arrival_s > first_scheduled_s|first_scheduled_s > first_token_s"),
    ({"first_token_s": [3.0]}, "first_token_s > finish_s"),
    ({"status": ["lost"]}, "injected 1, accounted for"),
    ({"finish_s": [NAN]}, "a finished request has no finish_s"),
    ({"generated_tokens": [5], "output_tokens": [4]}, "more output than asked for"),
    ({"request_id": ["a", "a"], "arrival_s": [0.0, 0.0]}, "share an id"),
])  # fmt: skip
def test_a_broken_invariant_is_named(columns, complaint):
    with pytest.raises(AssertionError, match=complaint):
        record(requests(**columns)).check()


def test_blocks_are_used_cached_or_free():
    with pytest.raises(AssertionError, match="are not 16 everywhere"):
        record(requests(), steps(used_blocks=[4], free_blocks=[11])).check()
