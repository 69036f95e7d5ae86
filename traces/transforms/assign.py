"""Users, priorities and deadlines drawn from stated distributions, in place of what the trace had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traces.distributions import Distribution
from traces.streams import Stream
from traces.trace import Trace
from traces.transforms.common import name_keys, require_arrivals
from traces.transforms.seconds import Seconds


def with_users(trace: Trace, numbers: Distribution, seed: int) -> Trace:
    """Users `user1`, `user2`, ...: a draw a session, so that a session stays one user's, or a request without one."""
    index = np.arange(len(trace), dtype=np.uint64)
    if trace.session is not None:
        index = np.where([bool(name) for name in trace.session], name_keys(trace.session), index)
    drawn = numbers.sample(Stream(seed, "user"), index)
    note = f"users drawn from {numbers.FORM.partition('(')[0]}: {len(np.unique(drawn)):,}"
    return replace(trace, user=[f"user{number}" for number in drawn.tolist()], report=trace.report.noting(note))


def with_priorities(trace: Trace, priorities: Distribution, seed: int) -> Trace:
    """A draw a request; smaller is more urgent."""
    drawn = priorities.sample(Stream(seed, "priority"), np.arange(len(trace)))
    values, counts = np.unique(drawn, return_counts=True)
    told = ", ".join(f"{count:,} of {value}" for value, count in zip(values[:4], counts[:4], strict=True))
    note = f"priorities drawn: {told}{', ...' if len(values) > 4 else ''}"
    return replace(trace, priority=drawn, report=trace.report.noting(note))


def with_deadlines(trace: Trace, after: Seconds, seed: int) -> Trace:
    """A draw a request, in seconds after its arrival."""
    require_arrivals(trace, "trace.deadline_s")
    drawn = after.sample(Stream(seed, "deadline"), np.arange(len(trace)))
    note = f"deadlines drawn: {drawn.min():.4g} to {drawn.max():.4g} s after arrival, mean {drawn.mean():.4g} s"
    return replace(trace, deadline_s=trace.arrival_s + drawn, report=trace.report.noting(note))
