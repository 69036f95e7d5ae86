"""Little's law, L = lambda W: a check of any run's stamps against each other."""

from typing import NamedTuple

import numpy as np

from twin.results.record import Record, left_system_s


class Little(NamedTuple):
    """In a window of T seconds; L = lambda W + edge holds exactly, so `error` is rounding or a defect."""

    in_system: float  # L: time average of the number in the system, from the order of arrivals and departures
    rate: float  # lambda: requests that came and went inside the window, a second
    sojourn_s: float  # W: mean time in the system of those
    edge: float  # what the others, cut by the window's edges, add to L

    @property
    def error(self) -> float:
        return self.in_system - self.rate * self.sojourn_s - self.edge


def littles_law(record: Record, start_s: float, end_s: float) -> Little:
    """Little (1961) over [start_s, end_s] (case met-12). Raises ValueError if that is empty.

    L is counted along time (+1 at an arrival, -1 at a departure), W along the requests. Rejected requests, who leave
    as they come, add to the rate and nothing to L, as they should.
    """
    if not end_s > start_s:
        raise ValueError(f"Little's law needs a window of some length, not [{start_s}, {end_s}]")
    came = ~np.isnan(record.requests["arrival_s"])
    arrival_s = record.requests["arrival_s"][came]
    departure_s = left_system_s(record.requests, max(record.end_s, end_s))[came]
    span_s = end_s - start_s
    times = np.concatenate((arrival_s, departure_s))
    change = np.concatenate((np.ones(len(arrival_s)), -np.ones(len(departure_s))))
    order = np.argsort(times, kind="stable")
    number = np.cumsum(change[order])[:-1]
    knots = np.clip(times[order], start_s, end_s)
    in_system = float(number @ np.diff(knots)) / span_s if len(knots) else 0.0
    inside = (arrival_s >= start_s) & (departure_s <= end_s)
    rate = float(inside.sum()) / span_s
    sojourn_s = float((departure_s - arrival_s)[inside].mean()) if inside.any() else 0.0
    cut = np.clip(departure_s, start_s, end_s) - np.clip(arrival_s, start_s, end_s)
    return Little(in_system, rate, sojourn_s, float(cut[~inside].sum()) / span_s)
