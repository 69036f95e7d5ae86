"""Code completion as Azure's users asked for it: fitted to the Azure LLM inference trace 2023 (code).

Arrivals: bursts of requests and pauses of more than 2 s between them; sizes of bursts, pauses, and gaps within bursts
come by inversion of their quantiles. Gaps of one burst, and of one stretch of 100 requests, resemble each other: the
normal levels behind them share a part (a Gaussian copula, which leaves the distribution of the gaps as it is), because
independent gaps average out to the same rate in every burst (Fano factor 51 in 10 s, where the source has 72).
Lengths: as `traces.generators.fit.Lengths` says.
"""

import math

import numpy as np

from traces.generators.fit import Lengths, Quantiles, figures
from traces.streams import Stream
from traces.trace import Report, Trace


def generate(num_requests: int, seed: int, rate: float | None = None) -> Trace:
    """`num_requests` requests; with `rate`, in requests/s, the clock of the process runs so much faster or slower."""
    fit = figures("code")
    index = np.arange(num_requests)
    arrival_s = arrivals(seed, index)
    if rate is not None:
        arrival_s *= fit["arrivals"]["rate"] / rate
    prompt_tokens, output_tokens = Lengths.of(fit["lengths"]).sample(seed, "code", index)
    source = f"code: fitted to the Azure LLM inference trace 2023 (code), {rate or fit['arrivals']['rate']:.4g} requests/s"
    return Trace(
        name="code",
        arrival_s=arrival_s,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        report=Report(source=source, read=num_requests),
    )


def arrivals(seed: int, index: np.ndarray) -> np.ndarray:
    """Arrival times in seconds, the first 0, of the requests 0 to len(index) - 1."""
    fit = figures("code")["arrivals"]
    size, pause_s, gap_s = (Quantiles.of(fit["levels"], fit[name]) for name in ("burst_size", "pause_s", "gap_s"))
    most = np.arange(math.ceil(len(index) / size.values[0]))
    sizes = size.tokens(Stream(seed, "code/size").uniforms(most))
    last = np.cumsum(sizes)  # one behind the last request of each burst
    burst = np.searchsorted(last, index, side="right")
    shares = fit["burst_share"], fit["stretch_share"]
    level = shares[0] * Stream(seed, "code/burst").normals(burst)
    level += shares[1] * Stream(seed, "code/stretch").normals(index // fit["stretch_requests"])
    level += math.sqrt(1 - shares[0] ** 2 - shares[1] ** 2) * Stream(seed, "code/gap").normals(index)
    gaps = gap_s.at_normal(level)
    opening = np.flatnonzero(np.diff(burst)) + 1  # the first requests of the bursts after the first
    gaps[opening] = pause_s.at(Stream(seed, "code/pause").uniforms(burst[opening]))
    gaps[0] = 0
    return np.cumsum(gaps)
