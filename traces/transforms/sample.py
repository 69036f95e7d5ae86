"""A part of the clients: whoever stays keeps all that he sends, so that his sessions and bursts stay what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traces.streams import Stream
from traces.trace import Trace
from traces.transforms.common import kept, name_keys, require_arrivals


def sampled(trace: Trace, share: float, seed: int) -> Trace:
    """Each session stays with probability `share`; where a trace has none each user, where it has none each request.

    The draw depends on (seed, name) alone: a larger share keeps all that a smaller one does. Requests whose session
    (or user) is not given are drawn one by one. The mean rate falls with the share; `trace.rate` restores it.
    """
    option = f"trace.sample={share:g}"
    require_arrivals(trace, option)
    draws = Stream(seed, "sample/request").uniforms(np.arange(len(trace)))
    names, unit = next(
        ((column, unit) for column, unit in ((trace.session, "sessions"), (trace.user, "users")) if column and any(column)),
        (None, "requests"),
    )
    if names is not None:
        named = np.array([bool(name) for name in names])
        draws = np.where(named, Stream(seed, f"sample/{unit}").uniforms(name_keys(names)), draws)
    rows = np.flatnonzero(draws < share)
    note = f"sample of {share:g}: {len(rows):,} of {len(trace):,} requests"
    if names is not None:
        note += f", of {len({names[row] for row in rows} - {''}):,} of {len(set(names) - {''}):,} {unit}"
    return replace(kept(trace, rows, option), report=trace.report.noting(note))
