"""Where a request log lies on the clock of the scrapes.

Where the log's stamps are seconds since 1970 they are on that clock. Else (a client's monotonic clock, or a log that begins
with 0) the log is laid where its own first tokens and ends are nearest to what the counters say: vLLM counts a prompt's
tokens when its first token comes, and a request when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.scrapes.series import Scrapes

EPOCH_S = 1e9  # later than this a stamp is of the day: 2001
# Share of all requests and prompt tokens by which scrapes may differ from the log, on average and in the end: beyond it
# these are not the scrapes of this log. Live ones differed by 0.1 to 1 % on average (by 9 % for once, since a busy server
# answers late), those of another run of the same kind by 5 %. Of a short log so many requests: a probe is none of it.
MOST_APART, MOST_IN_THE_END = 0.025, 0.05
FEW_APART, FEW_IN_THE_END = 1, 3
TRIED = 20_000  # places of the log, evenly
FINEST_S = 0.02


@dataclass(frozen=True)
class Alignment:
    """`start_s`: the first arrival on the scrapes' clock; `apart`: share of all by which the scrapes' counts differ from the
    log's, on average over the scrapes, requests and prompt tokens."""

    start_s: float
    apart: float
    words: str


@dataclass(frozen=True, eq=False)
class Counted:
    """A counter as scraped, and the events of the log that it should count, in order of time."""

    added: np.ndarray
    at_s: np.ndarray
    until: np.ndarray  # counted up to each of these, from 0

    @classmethod
    def of(cls, added: np.ndarray, at_s: np.ndarray, each: np.ndarray) -> Counted:
        order = np.argsort(at_s, kind="stable")
        return cls(added, at_s[order], np.concatenate(([0.0], np.cumsum(each[order]))))

    def apart(self, times_s: np.ndarray) -> np.ndarray:
        """The difference at each scrape, as a share of all; `times_s` are the scrapes' on the log's clock."""
        logged = self.until[np.searchsorted(self.at_s, times_s, side="right")]
        return np.asarray(np.abs(self.added - (logged - logged[0])) / max(self.until[-1], self.added[-1], 1.0))


def aligned(log: RequestLog, scrapes: Scrapes) -> Alignment:
    """Raises ValueError, in one line, where the scrapes are not of this log."""
    counted = counters(log, scrapes)
    if not counted:
        raise ValueError(f"metrics={scrapes.source}: neither vllm:request_success_total nor vllm:prompt_tokens_total")

    def apart(start_s: float) -> np.ndarray:
        return np.asarray(np.mean([one.apart(scrapes.at_s - start_s) for one in counted], axis=0))

    if log.start_s > EPOCH_S:
        start_s, words = log.start_s, "both on the clock of the day"
    else:
        start_s = nearest(lambda start_s: float(apart(start_s).mean()), log, scrapes)
        words = "laid where the log's first tokens and ends are nearest to the counters"
    shares = apart(start_s)
    found = Alignment(start_s, float(shares.mean()), words)
    if shares.mean() > max(MOST_APART, FEW_APART / len(log)) or shares[-1] > max(MOST_IN_THE_END, FEW_IN_THE_END / len(log)):
        counts = ", ".join(f"{one.added[-1]:,.0f} counted, {one.until[-1]:,.0f} logged" for one in counted)
        raise ValueError(
            f"metrics={scrapes.source}: not of this log: requests and prompt tokens differ by {100 * shares.mean():.1f} % "
            f"on average, {100 * shares[-1]:.1f} % in the end ({words}; {counts}); another run, or other traffic not logged?"
        )
    return found


def counters(log: RequestLog, scrapes: Scrapes) -> Sequence[Counted]:
    found = []
    ended, begun = np.isfinite(log.finish_s), np.isfinite(log.first_token_s)
    if (added := scrapes.added("request_success")) is not None:
        found.append(Counted.of(added, log.finish_s[ended], np.ones(int(ended.sum()))))
    if (added := scrapes.added("prompt_tokens")) is not None:
        found.append(Counted.of(added, log.first_token_s[begun], log.prompt_tokens[begun].astype(float)))
    return found


def nearest(apart: Callable[[float], float], log: RequestLog, scrapes: Scrapes) -> float:
    """The first arrival for which the counts differ least; of a stretch of such, its middle."""
    length_s = float(np.nanmax(log.finish_s))
    low, high = float(scrapes.at_s[0]) - length_s, float(scrapes.at_s[-1])
    width = high - low
    while True:
        step = max(width / TRIED, FINEST_S)
        tried = np.arange(low, high + step / 2, step)
        values = np.array([apart(start_s) for start_s in tried.tolist()])
        best = np.flatnonzero(values <= values.min() + 1e-12)
        first = best[0]
        last = first + int(np.argmax(np.append(np.diff(best), 2) > 1))  # end of the first unbroken stretch
        middle = float((tried[first] + tried[last]) / 2)
        if step <= FINEST_S:
            return middle
        width = 20 * step
        low, high = middle - width / 2, middle + width / 2
