"""Conversations as Azure's users held them: a generator fitted to the Azure LLM inference trace 2023 (conversation).

Arrivals: a Poisson process whose rate itself moves, rate(t) = mean * exp(SIGMA z_w - SIGMA^2 / 2) with z_w a standard
AR(1) process, z_w = PHI z_(w-1) + sqrt(1 - PHI^2) e_w, over windows w of 60 s, times an independent log-normal
residual of mean 1 over windows of 10 s. This gives the burstiness over minutes that a Poisson process lacks: the
variance of the arrivals in a minute is 16 times their mean. What it leaves out: the source's gaps vary a little more
(coefficient of variation 1.09, here 1.04), because some of its requests come in groups within a second.

Lengths: the prompt by inversion of its quantiles; the output by inversion of those of its sixteenth of the prompts,
because outputs depend on prompts in a way that no correlation describes.
"""

import math

import numpy as np

from traces.generators import chat_fit as fit
from traces.streams import Stream
from traces.trace import Report, Trace


def generate(num_requests: int, seed: int, rate: float | None = None) -> Trace:
    """`num_requests` requests of the fitted process, its intensity scaled to a mean of `rate` requests/s.

    The realised mean rate of a short trace differs, as it does between minutes of the real one.
    """
    index = np.arange(num_requests)
    mean_rate = fit.RATE if rate is None else rate
    prompt_tokens, output_tokens = lengths(seed, index)
    source = f"chat: fitted to the Azure LLM inference trace 2023 (conversation), {mean_rate:.4g} requests/s"
    return Trace(
        name="chat",
        arrival_s=arrivals(seed, index, mean_rate),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        report=Report(source=source, read=num_requests),
    )


def lengths(seed: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and output lengths in tokens of these requests."""
    prompt_level = Stream(seed, "chat/prompt").uniforms(index)
    output_level = Stream(seed, "chat/output").uniforms(index)
    prompt_tokens = np.interp(prompt_level, fit.PROMPT_LEVELS, fit.PROMPT_TOKENS)
    part = np.floor(prompt_level * len(fit.OUTPUT_TOKENS)).astype(np.int64)
    output_tokens = np.empty(len(index))
    for number, quantiles in enumerate(fit.OUTPUT_TOKENS):
        chosen = part == number
        output_tokens[chosen] = np.interp(output_level[chosen], fit.OUTPUT_LEVELS, quantiles)
    return np.rint(prompt_tokens).astype(np.int64), np.rint(output_tokens).astype(np.int64)


def arrivals(seed: int, index: np.ndarray, mean_rate: float) -> np.ndarray:
    """Arrival times in seconds, the first 0: unit-rate Poisson arrivals through the inverse of the summed intensity."""
    arrived = np.cumsum(Stream(seed, "chat/arrival").exponentials(index))
    windows = 64
    while True:
        intensity = mean_rate * modulation(seed, windows)
        expected = np.concatenate(([0.0], np.cumsum(intensity * fit.RESIDUAL_WINDOW_S)))
        if expected[-1] > arrived[-1]:
            break
        windows *= 2
    times = np.interp(arrived, expected, np.arange(len(expected)) * fit.RESIDUAL_WINDOW_S)
    return times - times[0]


def modulation(seed: int, windows: int) -> np.ndarray:
    """The factor on the mean rate in the first `windows` windows of 10 s; its mean over seeds is 1."""
    per_window = round(fit.WINDOW_S / fit.RESIDUAL_WINDOW_S)
    noise = Stream(seed, "chat/rate").normals(np.arange(-(-windows // per_window)))
    level, levels = noise[0], [noise[0]]
    for innovation in noise[1:]:
        level = fit.PHI * level + math.sqrt(1 - fit.PHI**2) * innovation
        levels.append(level)
    slow = fit.SIGMA * np.repeat(levels, per_window)[:windows] - fit.SIGMA**2 / 2
    residual = Stream(seed, "chat/residual").normals(np.arange(windows))
    return np.exp(slow + fit.RESIDUAL_SIGMA * residual - fit.RESIDUAL_SIGMA**2 / 2)
