"""Long documents beside short questions: lengths and rate fitted to the synthetic trace of Mooncake, which mixes public
long-context sets with Poisson arrivals (Fano factor 1.2). What it leaves out: that some documents are asked about
several times; every prompt here is new."""

import numpy as np

from traces.arrivals import Poisson
from traces.generators.fit import Lengths, figures
from traces.streams import Stream
from traces.trace import Report, Trace


def generate(num_requests: int, seed: int, rate: float | None = None) -> Trace:
    """`num_requests` requests at `rate` requests/s, by default 3.9, the source's."""
    fit = figures("long_context")
    mean_rate = fit["arrivals"]["rate"] if rate is None else rate
    prompt_tokens, output_tokens = Lengths.of(fit["lengths"]).sample(seed, "long_context", np.arange(num_requests))
    source = f"long_context: fitted to Mooncake's synthetic trace 2025, Poisson arrivals, {mean_rate:.4g} requests/s"
    return Trace(
        name="long_context",
        arrival_s=Poisson(mean_rate).times(Stream(seed, "long_context/arrival"), num_requests),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        report=Report(source=source, read=num_requests),
    )
