"""summary.json: every number by hand."""

import json

import numpy as np
import pytest

from tests.results.records import NAN, queue, record, requests, steps, two
from twin.results.summary import summarize

PROMISED = (
    "complete requests finished rejected aborted unfinished duration_s request_throughput output_token_throughput "
    "total_token_throughput "
    + " ".join(f"{name}_s_{statistic}" for name in ("ttft", "tpot", "itl", "e2e", "queue", "normalized_latency")
               for statistic in ("mean", "p50", "p90", "p95", "p99"))
    + " slo_attainment goodput kv_usage_mean kv_usage_peak kv_waste_fraction batch_size_mean preemptions "
    "recompute_preemptions swap_preemptions recomputed_tokens prefix_cache_hit_rate max_waiting saturated steps wall_s "
    "simulated_requests_per_wall_s"
).split()  # fmt: skip


def test_the_promised_keys_come_first_and_in_order():
    assert list(summarize(two()))[: len(PROMISED)] == PROMISED


def test_a_run_of_two_by_hand():
    found = summarize(two())
    expected = {
        "complete": True, "requests": 3, "finished": 2, "rejected": 1, "aborted": 0, "unfinished": 0,
        "duration_s": 3.0, "request_throughput": 2 / 3, "output_token_throughput": 5 / 3,
        "total_token_throughput": (16 + 16 + 5) / 3,
        "ttft_s_mean": 1.25, "ttft_s_p50": 1.25, "ttft_s_p90": 1.45, "ttft_s_n": 2,  # 1 and 1.5
        "tpot_s_mean": 1.0, "itl_s_mean": 1.0, "itl_s_n": 3,
        "e2e_s_mean": 2.75, "queue_s_mean": 0.25, "normalized_latency_s_mean": (3 / 3 + 2.5 / 2) / 2,
        "slo_attainment": None, "goodput": None, "batch_size_mean": 5 / 3, "steps": 3, "max_waiting": 1,
        "preemptions": 0, "prefix_cache_hit_rate": None, "recompute_tax": 0.0,
        "wall_s": 0.5, "simulated_requests_per_wall_s": 6.0, "percentile_method": "linear",
    }  # fmt: skip
    assert {key: found[key] for key in expected} == pytest.approx(expected)


def test_met_03_one_token_requests_have_no_tpot_and_no_itl():
    found = summarize(record(requests(arrival_s=[0.0, 0.0])))
    assert found["tpot_s_n"] == found["itl_s_n"] == 0
    assert found["tpot_s_mean"] is None and found["itl_s_p99"] is None
    assert found["ttft_s_mean"] == found["e2e_s_mean"] == 1.0


def test_met_04_throughput_is_from_first_arrival_to_last_completion():
    found = summarize(record(requests(
        arrival_s=[0.0, 1.0, 2.0], first_token_s=[4.0, 4.0, 4.0], finish_s=[5.0, 6.0, 8.0], generated_tokens=[100] * 3,
    )))  # fmt: skip
    assert found["output_token_throughput"] == 37.5


def test_pc_07_hits_of_a_resumed_request_are_told_apart():
    rows = requests(request_id=["A", "B"], prompt_tokens=[7, 7], generated_tokens=[6, 6], preemptions=[0, 1])
    counters = {"prefix_cache_queries": 14, "prefix_cache_hits": 0, "recompute_hit_tokens": 4, "preemptions": 1}
    found = summarize(record(rows, counters=counters))
    assert found["prefix_cache_hit_rate"] == 0.0
    assert found["recompute_hit_tokens"] == 4
    assert (found["preemptions"], found["recompute_preemptions"], found["swap_preemptions"]) == (1, 1, 0)


def test_pc_08_a_prompt_is_looked_up_once():
    rows = requests(prompt_tokens=[40], cached_tokens=[32])
    found = summarize(record(rows, counters={"prefix_cache_queries": 40, "prefix_cache_hits": 32}))
    assert found["prefix_cache_hit_rate"] == 0.8


def test_pri_06_recompute_tax_is_recomputed_over_all_computed_tokens():
    """A (8,000 computed) or B (100 computed) is preempted and computed again."""
    for waste in (8000, 100):
        table = steps(prefill_tokens=[8100, waste], decode_tokens=[0, 0], used_blocks=[1, 0])
        found = summarize(record(requests(recomputed_tokens=[waste], preemptions=[1]), table))
        assert found["recomputed_tokens"] == waste
        assert found["recompute_tax"] == pytest.approx(waste / (8100 + waste))


def test_the_batch_is_a_mean_over_steps_not_rows_and_not_empty_plans():
    table = steps(sequences=[1, 5, 0], repeat=[1, 9, 1])
    assert summarize(record(requests(), table))["batch_size_mean"] == pytest.approx((1 + 9 * 5) / 10)


def test_a_run_in_which_all_were_rejected_has_nulls_and_no_nan():
    rows = requests(status=["rejected"], generated_tokens=[0], output_tokens=[5], first_scheduled_s=[NAN],
                    first_token_s=[NAN], finish_s=[0.0])  # fmt: skip
    found = summarize(record(rows), slo={"ttft_s": 1.0})
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["rejected"] == 1 and found["ttft_s_mean"] is None and found["request_throughput"] is None
    assert found["slo_attainment"] == 0.0


def test_objectives_count_every_request():
    """Met by A alone: B is late, C was rejected, D never finished; one token meets any TPOT."""
    rows = requests(
        arrival_s=[0.0, 0.0, 0.0, 0.0], first_token_s=[1.0, 3.0, NAN, 1.0], finish_s=[1.0, 4.0, 0.0, NAN],
        status=["finished", "finished", "rejected", "unfinished"], generated_tokens=[1, 2, 0, 1], output_tokens=[2] * 4,
    )  # fmt: skip
    found = summarize(record(rows, end_s=4.0), slo={"ttft_s": 1.5, "tpot_s": 0.05, "e2e_s": None})
    assert found["slo_attainment"] == 0.25
    assert found["goodput"] == 0.25  # one request in four seconds


def test_an_unknown_or_impossible_objective_is_named():
    with pytest.raises(ValueError, match="slo.ttft_p99: no such objective"):
        summarize(two(), slo={"ttft_p99": 1.0})
    with pytest.raises(ValueError, match="slo.ttft_s=0: a limit must be positive"):
        summarize(two(), slo={"ttft_s": 0})


@pytest.mark.parametrize("warmup", [{"warmup_requests": 1}, {"warmup_s": 0.25}])
def test_the_warm_up_is_left_out_of_everything(warmup):
    """Without A: B and C are measured, from 0.5 on; the first step is not."""
    found = summarize(two(), **warmup)
    assert (found["requests"], found["finished"], found["rejected"]) == (2, 1, 1)
    assert found["duration_s"] == 2.5 and found["ttft_s_mean"] == 1.5
    assert found["steps"] == 2 and found["batch_size_mean"] == 2.0
    # Blocks: 4 in the second half of step 1, then 9 and 9 over a second each.
    assert found["kv_usage_mean"] == pytest.approx((4 * 0.5 + 9 + 9) / 2.5 / 16)
    assert found["warmup_requests_excluded"] == 1


def test_inter_token_latencies_of_the_warm_up_go_where_their_time_is_known():
    made = queue(50)
    made.itl_s, made.itl_count, made.itl_at_s = np.array([9.0, 1.0]), np.array([1, 1]), np.array([0.0, 1e9])
    assert summarize(made, warmup_requests=10)["itl_s_mean"] == 1.0
    assert summarize(made)["itl_s_mean"] == 5.0


def test_a_negative_warm_up_is_refused():
    with pytest.raises(ValueError, match="a warm-up is not negative"):
        summarize(two(), warmup_s=-1.0)


def test_times_beyond_all_floats_are_null():
    made = two()
    for name in ("finish_s", "first_token_s", "e2e_s", "ttft_s"):
        made.requests[name] = np.full_like(made.requests[name], np.inf)
    with np.errstate(all="ignore"):
        summary = summarize(made)
    assert summary["e2e_s_mean"] is None
    assert not any(isinstance(value, float) and not np.isfinite(value) for value in summary.values())
