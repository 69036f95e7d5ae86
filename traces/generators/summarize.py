"""Summaries of papers: lengths fitted to the arXiv summarization set as Vidur uses it. Poisson arrivals: the source
has no times."""

import numpy as np

from traces.arrivals import Poisson
from traces.generators.fit import Lengths, figures
from traces.streams import Stream
from traces.trace import Report, Trace

RATE = 1.0  # requests/s, a choice


def generate(num_requests: int, seed: int, rate: float | None = None) -> Trace:
    """`num_requests` requests at `rate` requests/s, by default 1."""
    mean_rate = RATE if rate is None else rate
    prompt_tokens, output_tokens = Lengths.of(figures("summarize")["lengths"]).sample(
        seed, "summarize", np.arange(num_requests)
    )
    source = f"summarize: lengths fitted to arXiv summarization, Poisson arrivals, {mean_rate:.4g} requests/s"
    return Trace(
        name="summarize",
        arrival_s=Poisson(mean_rate).times(Stream(seed, "summarize/arrival"), num_requests),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        report=Report(source=source, read=num_requests),
    )
