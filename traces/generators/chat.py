"""Conversations as Azure's users held them: a generator fitted to the Azure LLM inference trace 2023 (conversation).

Arrivals: a renewal process with gamma gaps whose rate itself moves,
rate(t) = mean * exp(SIGMA z(t) - SIGMA^2 / 2) * residual(t). z is linear between knots every 60 s, and the knots are a
standard AR(1) process, z_k = PHI z_(k-1) + sqrt(1 - PHI^2) e_k; the residual is log-normal of mean 1, independent in
windows of 10 s. PHI, SIGMA, the residual and the shape of the gaps are chosen (method of simulated moments) so that the
median of generated hours has the burstiness of the source's one hour: Fano factors in 10 s and 60 s, lag-1
autocorrelation of the rate per minute, coefficient of variation of the gaps. Taken directly from the hour's log rates
they come out too small, because an hour does not show how far its own mean lies from the mean of many hours.
"""

import math

import numpy as np

from traces.generators.fit import Lengths, figures
from traces.streams import Stream
from traces.trace import Report, Trace


def generate(num_requests: int, seed: int, rate: float | None = None) -> Trace:
    """`num_requests` requests of the fitted process, its intensity scaled to a mean of `rate` requests/s.

    The realised mean rate of a short trace differs, as it does between minutes of the real one.
    """
    fit = figures("chat")
    index = np.arange(num_requests)
    mean_rate = fit["arrivals"]["rate"] if rate is None else rate
    prompt_tokens, output_tokens = Lengths.of(fit["lengths"]).sample(seed, "chat", index)
    source = f"chat: fitted to the Azure LLM inference trace 2023 (conversation), {mean_rate:.4g} requests/s"
    return Trace(
        name="chat",
        arrival_s=arrivals(seed, index, mean_rate),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        report=Report(source=source, read=num_requests),
    )


def arrivals(seed: int, index: np.ndarray, mean_rate: float) -> np.ndarray:
    """Arrival times in seconds, the first 0: unit-rate renewals through the inverse of the summed intensity."""
    fit = figures("chat")["arrivals"]
    arrived = np.cumsum(Stream(seed, "chat/arrival").gammas(index, fit["gap_shape"]) / fit["gap_shape"])
    windows = 64
    while True:
        intensity = mean_rate * modulation(seed, windows)
        expected = np.concatenate(([0.0], np.cumsum(intensity * fit["residual_s"])))
        if expected[-1] > arrived[-1]:
            break
        windows *= 2
    times = np.interp(arrived, expected, np.arange(len(expected)) * fit["residual_s"])
    return times - times[0]


def modulation(seed: int, windows: int) -> np.ndarray:
    """The factor on the mean rate in the first `windows` windows of 10 s; its mean over seeds is 1 (less what the
    straight lines between knots take off the variance: below half a percent)."""
    fit = figures("chat")["arrivals"]
    phi, sigma, residual_sigma = fit["phi"], fit["sigma"], fit["residual_sigma"]
    place = (np.arange(windows) + 0.5) * fit["residual_s"] / fit["knots_s"]
    noise = Stream(seed, "chat/rate").normals(np.arange(math.ceil(place[-1]) + 1)).tolist()
    level, knots = noise[0], [noise[0]]
    for innovation in noise[1:]:
        level = phi * level + math.sqrt(1 - phi**2) * innovation
        knots.append(level)
    slow = sigma * np.interp(place, np.arange(len(knots)), knots) - sigma**2 / 2
    residual = Stream(seed, "chat/residual").normals(np.arange(windows))
    return np.exp(slow + residual_sigma * residual - residual_sigma**2 / 2)
