"""A part of the time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from traces.trace import Trace
from traces.transforms.common import kept, require_arrivals


def sliced(trace: Trace, from_s: float | None, to_s: float | None) -> Trace:
    """What arrives at `from_s` or later and before `to_s`, seconds from the first arrival of the trace as it is.

    Sessions may be cut by either end: how many is in the report.
    """
    begin, end = from_s or 0.0, math.inf if to_s is None else to_s
    option = f"trace.from_s={begin:g}" if to_s is None else f"trace.from_s={begin:g}, trace.to_s={to_s:g}"
    require_arrivals(trace, option)
    first, last = np.searchsorted(trace.arrival_s, [begin, end], side="left")
    rows = np.arange(first, last)
    notes = [
        f"time slice from {begin:g} {'s on' if to_s is None else f'to {to_s:g} s'}: {len(rows):,} of {len(trace):,} requests"
    ]
    if trace.session is not None:
        inside = set(trace.session[first:last])
        cut = inside & ({*trace.session[:first]} | {*trace.session[last:]}) - {""}
        notes += [f"{len(cut):,} sessions are cut by the slice"] if cut else []
    part = kept(trace, rows, option)
    return replace(part, report=replace(trace.report, notes=[*trace.report.notes, *notes]))
