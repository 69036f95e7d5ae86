"""The record of a run: all that the simulator or the engine hands over to the results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twin.results.columns import (
    ABORTED,
    FINISHED,
    MORE_REQUESTS,
    MORE_STEPS,
    REJECTED,
    REQUESTS,
    STATUSES,
    STEPS,
    Table,
    complete,
)

STAMPS = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")


@dataclass
class Record:
    """Columns of every request and of every step, the inter-token latencies, and what was counted on the way.

    On construction both tables are brought into the order and the types of `twin.results.columns`; optional columns
    may be left out, and the four durations (ttft_s, tpot_s, e2e_s, queue_s) are always derived here from the stamps.
    Raises ValueError for a missing or misspelt column or for columns of unequal length.
    """

    requests: dict[str, Any]  # arrays or lists, a row a request in trace order; `n` may give parallel samples
    steps: dict[str, Any]  # arrays or lists, a row a step or a run of equal steps, in order of start
    itl_s: np.ndarray  # inter-token latencies, seconds, each once ...
    itl_count: np.ndarray  # ... with the number of tokens that came so long after their forerunner
    num_blocks: int  # in a replica's pool
    block_size: int  # tokens a block
    complete: bool = True  # False: interrupted, or stopped by an error
    wall_s: float = 0.0  # real time that the run took
    end_s: float = 0.0  # virtual time at which it ended
    counters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # warnings to show
    block_steps: np.ndarray | None = None  # a row of steps: blocks held while a step ran, summed over its steps
    token_steps: np.ndarray | None = None  # ... and tokens in these blocks
    peak_blocks: np.ndarray | None = None  # ... and the most blocks held in one of its steps
    itl_at_s: np.ndarray | None = None  # when the tokens of each inter-token latency came (for a warm-up in seconds)

    def __post_init__(self) -> None:
        self.requests = with_durations(complete(REQUESTS, self.requests, MORE_REQUESTS))
        self.steps = complete(STEPS, self.steps, MORE_STEPS)
        self.itl_s = np.asarray(self.itl_s, dtype=np.float64)
        self.itl_count = np.asarray(self.itl_count, dtype=np.int64)

    def check(self) -> None:
        """Asserts what must hold of any record, whatever the policy (INV-1.. of inference-sim; case met-13)."""
        requests, steps = self.requests, self.steps
        status = np.asarray(requests["status"])
        counts = {name: int((status == name).sum()) for name in STATUSES}
        assert sum(counts.values()) == len(status), f"requests injected {len(status)}, accounted for {counts}"
        assert len(set(requests["request_id"])) == len(status), "two requests share an id"
        for earlier, later in zip(STAMPS, STAMPS[1:], strict=False):
            _assert_ordered(requests, earlier, later)
        finished = status == FINISHED
        for stamp in STAMPS:
            assert not np.isnan(requests[stamp][finished]).any(), f"a finished request has no {stamp}"
        generated = np.asarray(requests["generated_tokens"])
        assert (generated[finished] >= 1).all(), "a finished request generated nothing"
        assert (generated[status == REJECTED] == 0).all(), "a rejected request generated something"
        assert (generated <= requests["output_tokens"] * samples(self.requests)).all(), "more output than asked for"
        blocks = np.asarray(steps["used_blocks"]) + steps["cached_blocks"] + steps["free_blocks"]
        assert (blocks == self.num_blocks).all(), f"used + cached + free blocks are not {self.num_blocks} everywhere"
        assert (np.asarray(steps["repeat"]) >= 1).all() and (np.asarray(steps["duration_s"]) >= 0).all(), "steps"
        for replica in np.unique(steps["replica"]):
            start_s = np.asarray(steps["start_s"])[steps["replica"] == replica]
            assert (np.diff(start_s) >= 0).all(), f"the clock of replica {replica} went backwards"
        assert len(self.itl_s) == len(self.itl_count) and (self.itl_count > 0).all(), "inter-token latencies"
        assert (self.itl_s >= 0).all(), "a token came before its forerunner"


def samples(requests: Mapping[str, Any]) -> np.ndarray | int:
    """How many sequences each request asked for."""
    return requests.get("n", 1)


def with_durations(requests: Table) -> Table:
    """Fills ttft_s, queue_s, tpot_s and e2e_s from the stamps, each nan where it is not defined.

    TTFT and queue time are known as soon as their stamp is; TPOT and E2E speak of finished requests alone. A request
    of one token has no time per output token. The denominator of TPOT is what was generated, never what was asked for
    (cases met-01, met-03); with parallel samples it is the length of one of them.
    """
    finish_s = np.where(requests["status"] == FINISHED, requests["finish_s"], np.nan)
    gaps = requests["generated_tokens"] / samples(requests) - 1.0
    span_s = finish_s - requests["first_token_s"]
    requests["ttft_s"] = requests["first_token_s"] - requests["arrival_s"]
    requests["tpot_s"] = np.divide(span_s, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0)
    requests["e2e_s"] = finish_s - requests["arrival_s"]
    requests["queue_s"] = requests["first_scheduled_s"] - requests["arrival_s"]
    return requests


def left_system_s(requests: Mapping[str, Any], end_s: float) -> np.ndarray:
    """When each request left the system; `end_s` for those still in it."""
    gone = np.isin(requests["status"].astype(str), (FINISHED, REJECTED, ABORTED))
    return np.where(gone & ~np.isnan(requests["finish_s"]), requests["finish_s"], end_s)


def _assert_ordered(requests: Mapping[str, Any], earlier: str, later: str) -> None:
    backwards = np.flatnonzero(requests[earlier] > requests[later])  # nan compares false
    if len(backwards):
        row = backwards[0]
        times = f"{requests[earlier][row]!r} > {requests[later][row]!r}"
        raise AssertionError(f"request {requests['request_id'][row]}: {earlier} > {later} ({times})")
