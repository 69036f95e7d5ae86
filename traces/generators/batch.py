"""Jobs of an API client: many requests close together, then nothing for long.

Lengths have the quantiles of ServeGen's clients of language/m-mid, linear between them in the logarithm, with one at
0.9999 where a Pareto tail would be (the means come out 7 % above the source's); prompt and output are independent,
because the source publishes their distributions alone. Arrivals: Weibull gaps of shape 0.18, the median of these clients
weighted by rate; or, with `job_size`, jobs of so many requests at once, and Poisson arrivals of jobs. No trace of jobs
of a batch API is public, so that the arrivals are of the kind measured and not checked against one.
"""

import math

import numpy as np

from traces.arrivals import running_sum
from traces.distributions import whole
from traces.generators.fit import Quantiles, figures
from traces.streams import Stream
from traces.trace import Report, Trace

RATE = 1.0  # requests/s, a choice


def generate(num_requests: int, seed: int, rate: float | None = None, *, job_size: int | None = None) -> Trace:
    """`num_requests` requests at a mean of `rate` requests/s, by default 1."""
    fit = figures("batch")
    index = np.arange(num_requests)
    mean_rate = RATE if rate is None else rate
    prompt_tokens, output_tokens = (
        np.exp(Quantiles.of(fit[name]["levels"], np.log(fit[name]["tokens"])).at(uniforms(seed, name, index)))
        for name in ("prompt", "output")
    )
    if job_size is None:
        shape = fit["arrivals"]["weibull_shape"]
        arrival_s = weibull(seed, index, shape) / mean_rate
        how = f"Weibull gaps of shape {shape:.3g}"
    else:
        if isinstance(job_size, bool) or whole("trace.job_size", job_size) < 1:
            raise ValueError(f"trace.job_size is {job_size}, must be an integer of at least 1")
        job = index // int(job_size)
        starts = running_sum(Stream(seed, "batch/job").exponentials(np.arange(job[-1] + 1)) * (job_size / mean_rate))
        arrival_s = starts[job]
        how = f"jobs of {job_size} requests at once"
    return Trace(
        name="batch",
        arrival_s=arrival_s,
        prompt_tokens=np.rint(prompt_tokens),
        output_tokens=np.rint(output_tokens),
        report=Report(source=f"batch: {how}, lengths of ServeGen m-mid, {mean_rate:.4g} requests/s", read=num_requests),
    )


def uniforms(seed: int, purpose: str, index: np.ndarray) -> np.ndarray:
    """One number a request."""
    return Stream(seed, f"batch/{purpose}").uniforms(index)


def weibull(seed: int, index: np.ndarray, shape: float) -> np.ndarray:
    """Arrivals with Weibull gaps of mean 1, by inversion: gap = (-log U)^(1/shape) / Gamma(1 + 1/shape)."""
    return running_sum(Stream(seed, "batch/gap").exponentials(index) ** (1 / shape) / math.gamma(1 + 1 / shape))
