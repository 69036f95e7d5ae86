"""Which part of a run the statistics speak of: everything but the warm-up."""

from dataclasses import dataclass

import numpy as np

from twin.results.columns import FINISHED
from twin.results.record import Record


@dataclass(frozen=True)
class Window:
    """The measured requests and the time from the first of their arrivals to the last of their completions.

    Throughput is counted over that time (case met-04). Where nothing finished it ends with the run.
    """

    start_s: float
    end_s: float
    measured: np.ndarray  # bool, a row of requests
    warm: bool  # was anything left out?

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


def window(record: Record, warmup_s: float = 0.0, warmup_requests: int = 0) -> Window:
    """Leaves out the requests that arrive before `warmup_s` and the first `warmup_requests` in order of arrival.

    Raises ValueError for a negative warm-up.
    """
    if not warmup_s >= 0 or warmup_requests < 0:
        raise ValueError(f"a warm-up is not negative: warmup_s={warmup_s}, warmup_requests={warmup_requests}")
    arrival_s = record.requests["arrival_s"]
    measured = ~(arrival_s < warmup_s)  # of a request that never came, arrival is nan
    measured[np.argsort(arrival_s, kind="stable")[:warmup_requests]] = False
    arrivals = arrival_s[measured & ~np.isnan(arrival_s)]
    start_s = float(arrivals.min()) if len(arrivals) else record.end_s
    finished = measured & (record.requests["status"] == FINISHED)
    end_s = float(record.requests["finish_s"][finished].max()) if finished.any() else max(record.end_s, start_s)
    return Window(start_s, end_s, measured, not measured.all())
