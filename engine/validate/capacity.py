"""How many requests a second the engine can serve: what it does while it never lacks work."""

from __future__ import annotations

from typing import NamedTuple

from twin.results.record import Record


class Capacity(NamedTuple):
    requests_per_s: float
    tokens_per_s: float
    busy_s: float  # of the burst: while somebody waited
    waited: bool  # False: nobody ever waited, and it is the whole burst that counts


def capacity(burst: Record) -> Capacity:
    """From a run in which all requests came at once.

    What counts is the time while somebody waits for a seat or for memory: at the end, when the last ones run alone, the
    machine is not full. Tokens computed in that time, over those of a mean request (of all that it computes, recomputed ones
    included), are requests a second.
    """
    steps = burst.steps
    tokens = (steps["prefill_tokens"] + steps["decode_tokens"]) * steps["repeat"]
    requests = int((burst.requests["status"] == "finished").sum())
    assert requests and tokens.sum()
    full = steps["waiting"] + steps["swapped"] > 0
    waited = bool(full.any())
    last = int(full.nonzero()[0][-1]) if waited else len(full) - 1
    busy_s = float(steps["start_s"][last] + steps["duration_s"][last] - steps["start_s"][0])
    tokens_per_s = float(tokens[: last + 1].sum()) / busy_s
    return Capacity(tokens_per_s * requests / float(tokens.sum()), tokens_per_s, busy_s, waited)
