"""A run exported and played again is the same run."""

import numpy as np
import pytest

from policies.fcfs import Fcfs
from traces import open_trace
from traces.write import write_trace
from twin.core.limits import Limits, Rules
from twin.latency.linear import LinearLatency
from twin.sim import Setup, simulate

STAMPS = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")


def served(trace, caching=True):
    limits = Limits(2_000, 16, max_num_seqs=64, max_num_batched_tokens=2048, enable_prefix_caching=caching)
    latency = LinearLatency(base_s=8e-3, per_prefill_token_s=6e-5, per_context_token_s=1e-7)
    return simulate(Setup(limits, Fcfs(), latency, Rules(async_scheduling=True)), trace)


def test_trc_04_shared_prefixes_survive_the_export(tmp_path):
    """Prompts of which all of a group share 14,336 tokens: what each finds cached is the same in the replay."""
    trace = open_trace("synthetic", arrivals="poisson(2)", prompt_tokens="uniform(10,200)", output_tokens="uniform(5,40)",
                       num_requests=60, prefix_groups=2, prefix_tokens=14_336)  # fmt: skip
    write_trace(trace, tmp_path / "run.parquet")
    first, again = served(trace), served(open_trace("file", path=tmp_path / "run.parquet"))
    assert first.requests["cached_tokens"].sum() > 40 * 14_336
    np.testing.assert_array_equal(first.requests["cached_tokens"], again.requests["cached_tokens"])


@pytest.mark.parametrize("rate", [20, 60])
def test_trc_05_a_replay_is_the_run_to_the_last_bit(tmp_path, rate):
    """200 requests, played from the table that the run itself left."""
    from twin.results.record import Record
    from twin.results.tables import requests_table, write_parquet

    trace = open_trace("synthetic", arrivals=f"poisson({rate})", prompt_tokens="uniform(50,800)",
                       output_tokens="uniform(10,200)", num_requests=200)  # fmt: skip
    first = served(trace)
    with open(tmp_path / "requests.parquet", "wb") as handle:
        write_parquet(requests_table(Record(**vars(first)).requests), handle)
    again = served(open_trace("file", path=tmp_path / "requests.parquet"))
    assert (np.array(again.requests["status"]) == "finished").all()
    shift = first.requests["arrival_s"][0]  # a trace starts at 0
    assert shift == 0.0
    for stamp in STAMPS:
        np.testing.assert_array_equal(first.requests[stamp], again.requests[stamp])
