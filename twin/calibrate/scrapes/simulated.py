"""A simulated run as /metrics would have shown it: the same counters, gauges and histograms over the same window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twin.calibrate.scrapes.series import Histogram
from twin.sim.simulation import Outcome


@dataclass(frozen=True, eq=False)
class Simulated:
    """The outcome, looked at from `from_s` (not included) to `to_s` on its own clock."""

    outcome: Outcome
    from_s: float
    to_s: float

    def counter(self, name: str) -> float | None:
        """What the counter would have counted in the window; None for one that is not simulated."""
        count = COUNTED.get(name)
        return None if count is None else float(count(self))

    def gauge(self, name: str, at_s: np.ndarray) -> np.ndarray:
        """The gauge at these times: as the last step before left it, the pool filling evenly within a row of equal steps."""
        steps = self.outcome.steps
        ends = steps["start_s"] + steps["duration_s"]
        if name == "kv_cache_usage_perc":
            used = steps["used_blocks"] / self.outcome.num_blocks
            times = np.column_stack((steps["start_s"], ends)).ravel()
            before = np.concatenate(([0.0], used[:-1]))
            return np.interp(at_s, times, np.column_stack((before, used)).ravel(), left=0.0)
        column = {"num_requests_running": ("running",), "num_requests_waiting": ("waiting", "swapped")}[name]
        values = np.concatenate(([0], sum(steps[one] for one in column)))
        return np.asarray(values[np.searchsorted(ends, at_s, side="right")], float)

    def histogram(self, name: str, edges: np.ndarray) -> Histogram:
        """The times that vLLM would have observed in the window, in these buckets."""
        values, weights = self.observed(name)
        counts = np.zeros(len(edges))
        np.add.at(counts, np.searchsorted(edges, values), weights)  # a bucket holds what is at most its edge
        return Histogram(edges, counts, float((values * weights).sum()))

    def observed(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, how often): the first token's time when it comes, a token's when it comes, all others at the end."""
        requests = self.outcome.requests
        arrival_s, scheduled_s, first_s = (self.stamps(one) for one in ("arrival_s", "first_scheduled_s", "first_token_s"))
        finish_s, outputs = self.stamps("finish_s"), np.asarray(requests["generated_tokens"])
        if name == "inter_token_latency_seconds":
            here = self.within(self.outcome.itl_at_s)
            return self.outcome.itl_s[here], self.outcome.itl_count[here].astype(float)
        if name == "time_to_first_token_seconds":
            values, here = first_s - arrival_s, self.within(first_s)
        else:
            here = self.within(finish_s)
            values = {
                "request_time_per_output_token_seconds": np.where(outputs > 1, finish_s - first_s, 0)
                / np.maximum(outputs - 1, 1),
                "e2e_request_latency_seconds": finish_s - arrival_s,
                "request_queue_time_seconds": np.maximum(scheduled_s - self.queued(arrival_s), 0.0),
            }[name]
        return values[here], np.ones(int(here.sum()))

    def queued(self, arrival_s: np.ndarray) -> np.ndarray:
        """When the scheduler is given what arrives then: at once, or when the step under way has ended.

        vLLM's time in the queue begins there. Steps of one row are taken to be equally long.
        """
        steps = self.outcome.steps
        row = np.maximum(np.searchsorted(steps["start_s"], arrival_s, side="right") - 1, 0)
        start_s, each_s = steps["start_s"][row], (steps["duration_s"] / steps["repeat"])[row]
        passed_s = np.maximum(arrival_s - start_s, 0.0)
        under_way = (passed_s > 0) & (passed_s < steps["duration_s"][row])
        ended = np.ceil(passed_s / np.where(under_way, each_s, 1.0))
        return np.where(under_way, start_s + ended * each_s, arrival_s)

    def stamps(self, name: str) -> np.ndarray:
        return np.asarray(self.outcome.requests[name], float)

    def within(self, times_s: np.ndarray) -> np.ndarray:
        """Which of these times lie in the window; an empty stamp does not."""
        return np.asarray((times_s > self.from_s) & (times_s <= self.to_s))

    def summed(self, column: str, stamp: str) -> float:
        """Of the requests whose stamp lies in the window."""
        return float(np.asarray(self.outcome.requests[column])[self.within(self.stamps(stamp))].sum())


def generated(run: Simulated) -> float:
    """Tokens that came: first ones, and those that followed another."""
    return float(
        run.within(run.stamps("first_token_s")).sum() + run.outcome.itl_count[run.within(run.outcome.itl_at_s)].sum()
    )


COUNTED: dict[str, Callable[[Simulated], float]] = {
    "request_success": lambda run: float(run.within(run.stamps("finish_s")).sum()),
    "prompt_tokens": lambda run: run.summed("prompt_tokens", "first_token_s"),
    "prompt_tokens_cached": lambda run: run.summed("cached_tokens", "first_token_s"),
    "generation_tokens": generated,
    "num_preemptions": lambda run: float(run.outcome.steps["preempted"][run.within(run.outcome.steps["start_s"])].sum()),
}
