"""What a run leaves of its requests, a row each, and of its tokens, every inter-token time.

Both are kept as numbers in arrays that grow, never as objects; its steps are in step_table.py.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from twin.core.request import ABORTED, FINISHED, Request
from twin.sim.arrivals import Workload

NAN = float("nan")


class RequestTable:
    """Rows of requests.parquet: written when a request ends, by its row in the trace."""

    def __init__(self, rows: int) -> None:
        blank, zeros = np.full(rows, NAN).tobytes(), bytes(8 * rows)
        self.arrival_s, self.first_scheduled_s = array("d", blank), array("d", blank)
        self.first_token_s, self.finish_s = array("d", blank), array("d", blank)
        self.generated_tokens, self.cached_tokens = array("q", zeros), array("q", zeros)
        self.preemptions, self.swap_outs = array("q", zeros), array("q", zeros)
        self.recomputed_tokens = array("q", zeros)
        self.deadline_s = array("d", blank)
        self.status = ["unfinished"] * rows
        self.reason = [""] * rows
        self.open_samples: dict[int, int] = {}

    def arrived(self, request: Request) -> None:
        row = request.index
        self.arrival_s[row] = request.arrival_s
        if request.deadline_s is not None:
            self.deadline_s[row] = request.deadline_s
        if request.samples > 1:
            self.open_samples[row] = request.samples

    def ended(self, request: Request, now: float) -> bool:
        """Write the row; False while samples of the same request are still under way."""
        self.write(request)
        row = request.index
        self.finish_s[row] = now
        if row in self.open_samples and request.state in (FINISHED, ABORTED):
            self.open_samples[row] -= request.samples  # more than one if they never forked
            if self.open_samples[row] > 0:
                return False
        self.status[row] = request.state
        self.reason[row] = request.reason or ""
        return True

    def write(self, request: Request) -> None:
        """What is known of a request, or of one of its samples."""
        row = request.index
        if request.first_scheduled_s is not None and not self.first_scheduled_s[row] <= request.first_scheduled_s:
            self.first_scheduled_s[row] = request.first_scheduled_s
        if request.first_token_s is not None and not self.first_token_s[row] <= request.first_token_s:
            self.first_token_s[row] = request.first_token_s
        self.generated_tokens[row] += request.generated
        if request.cached_tokens:
            self.cached_tokens[row] = request.cached_tokens
        if request.preemptions:
            self.preemptions[row] += request.preemptions
            self.swap_outs[row] += request.swap_outs
            self.recomputed_tokens[row] += request.recomputed_tokens


STAMPS_AND_COUNTS = (
    "arrival_s", "first_scheduled_s", "first_token_s", "finish_s", "generated_tokens", "cached_tokens", "preemptions",
    "swap_outs", "recomputed_tokens",
)  # fmt: skip


class TokenTimes:
    """Inter-token times, weighted: a decode step is one value for all its decoders.

    Kept are the ends of steps, and for each run of them when the step before the first one ended: the differences are
    taken at the end, all at once.
    """

    def __init__(self) -> None:
        self.at_s = array("d")
        self.before_s, self.lengths, self.counts = array("d"), array("q"), array("q")  # a run of ends each

    def add(self, before_s: float, at_s: float, count: int) -> None:
        """So many tokens came at `at_s` whose forerunners had come at `before_s`."""
        self.at_s.append(at_s)
        self.before_s.append(before_s)
        self.lengths.append(1)
        self.counts.append(count)

    def add_stretch(self, before_s: float, ends: list[float], count: int) -> None:
        """So many tokens came at each of the ends, whose forerunners had come at the end before, first at `before_s`."""
        self.at_s.fromlist(ends)
        self.before_s.append(before_s)
        self.lengths.append(len(ends))
        self.counts.append(count)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name. A long run has some twenty million of each: no more copies of them than there must be."""
        at_s, lengths = np.frombuffer(self.at_s, dtype=float), np.frombuffer(self.lengths, dtype=np.int64)
        itl_s = np.empty_like(at_s)
        itl_s[1:] = at_s[:-1]
        itl_s[np.cumsum(lengths) - lengths] = self.before_s
        np.subtract(at_s, itl_s, out=itl_s)
        return {
            "itl_s": itl_s,
            "itl_count": np.repeat(np.frombuffer(self.counts, dtype=np.int64), lengths),
            "itl_at_s": at_s,
        }


def throughout(value: Any, kind: Any, rows: int) -> np.ndarray:
    """A column that says one thing, in the memory of one cell; read-only."""
    return np.broadcast_to(np.array(value, dtype=kind), rows)


def request_columns(table: RequestTable, trace: Workload) -> dict[str, Any]:
    """The columns of requests.parquet, stamps and counts beside what the trace asked for."""
    rows = len(trace)
    columns: dict[str, Any] = {
        "request_id": trace.ids(),
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "status": table.status,
        "reason": table.reason,
        "user": trace.user if trace.user is not None else throughout("", object, rows),
        "session": trace.session if trace.session is not None else throughout("", object, rows),
        "priority": trace.priority if trace.priority is not None else throughout(0, np.int64, rows),
        "replica": throughout(0, np.int64, rows),
    }
    for name in (*STAMPS_AND_COUNTS, "deadline_s"):
        cells = getattr(table, name)
        columns[name] = np.frombuffer(cells, dtype=cells.typecode)  # the table's own memory
    if trace.n is not None:
        columns["n"] = trace.n
    return columns
