"""What a trace is like, in a few numbers that can be compared with its source's."""

import numpy as np

from traces.prefix import Prefix
from traces.trace import Trace

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def statistics(trace: Trace) -> dict[str, object]:
    """Counts, rates, lengths.

    `rate` is requests/s as `Trace.rescaled` defines it; `gap_cv` the coefficient of variation of the gaps;
    `fano_10s` and `fano_60s` the variance over the mean of the arrivals in windows of that length from the first
    arrival on (1 for Poisson); `acf_60s` the correlation of the arrivals of a minute with those of the next;
    `prompt_tokens` and `output_tokens` hold mean, max and percentiles (p1 to p99); `spearman` is the rank correlation of
    prompt and output. Where there are prefixes, `shareable_fraction` is what of the prompts others have too, and with
    sessions `session_hit_rate` what the turn before had, `hit_rate` what any earlier request had. None where a number
    does not exist.
    """
    result: dict[str, object] = {"requests": len(trace)}
    if trace.closed is None:
        result |= arrival_statistics(trace.arrival_s)
    result["prompt_tokens"] = length_statistics(trace.prompt_tokens)
    result["output_tokens"] = length_statistics(trace.output_tokens)
    result["total_prompt_tokens"] = int(trace.prompt_tokens.sum())
    result["total_output_tokens"] = int(trace.output_tokens.sum())
    result["spearman"] = spearman(trace.prompt_tokens, trace.output_tokens)
    if trace.prefix is not None:
        result["shareable_fraction"] = float(trace.prefix.shareable_tokens().sum() / trace.prompt_tokens.sum())
        result["hit_rate"] = float(trace.prefix.cached_tokens().sum() / trace.prompt_tokens.sum())
        if trace.session is not None:
            result["session_hit_rate"] = session_hit_rate(trace.prefix, trace.session)
    return result


def arrival_statistics(arrival_s: np.ndarray) -> dict[str, object]:
    """Duration, rate and burstiness of arrival times in seconds."""
    duration_s = float(arrival_s[-1] - arrival_s[0])
    gaps = np.diff(arrival_s)
    moving = duration_s > 0
    return {
        "duration_s": duration_s,
        "rate": len(gaps) / duration_s if moving else None,
        "gap_cv": float(gaps.std() / gaps.mean()) if moving else None,
        "gap_max_s": float(gaps.max()) if moving else None,
        "fano_10s": fano(arrival_s, 10.0),
        "fano_60s": fano(arrival_s, 60.0),
        "acf_60s": autocorrelation(arrival_s, 60.0),
    }


def windowed(arrival_s: np.ndarray, window_s: float) -> np.ndarray:
    """The number of arrivals in each whole window of `window_s` seconds from the first arrival on."""
    since = arrival_s - arrival_s[0]
    windows = int(since[-1] // window_s)
    return np.bincount((since // window_s).astype(np.int64), minlength=windows)[:windows]


def fano(arrival_s: np.ndarray, window_s: float) -> float | None:
    """Variance over mean of the number of arrivals in windows of `window_s` seconds; None below two windows."""
    counts = windowed(arrival_s, window_s)
    return float(counts.var() / counts.mean()) if len(counts) > 1 and counts.any() else None


def autocorrelation(arrival_s: np.ndarray, window_s: float) -> float | None:
    """Lag-1 autocorrelation of the number of arrivals in windows of `window_s` seconds; None below three windows.

    The usual estimate: products of neighbours' deviations from the common mean, over the sum of squared deviations.
    """
    counts = windowed(arrival_s, window_s)
    if len(counts) < 3 or counts.std() == 0:
        return None
    deviations = counts - counts.mean()
    return float(deviations[:-1] @ deviations[1:] / (deviations @ deviations))


def session_hit_rate(prefix: Prefix, session: list[str]) -> float:
    """Of all prompt tokens, the share that the turn before in the same session had too: what a prefix cache that forgets
    nothing finds, apart from what different sessions share."""
    last: dict[str, int] = {}
    hits = 0
    for row, name in enumerate(session):
        if name and name in last:
            hits += prefix.common_tokens(row, last[name])
        last[name] = row
    return float(hits / prefix.prompt_tokens.sum())


def length_statistics(tokens: np.ndarray) -> dict[str, float]:
    """Mean, largest and percentiles (numpy's `linear`) of lengths in tokens."""
    percentiles = np.percentile(tokens, PERCENTILES)
    return {"mean": float(tokens.mean()), "max": int(tokens.max())} | {
        f"p{percent}": float(value) for percent, value in zip(PERCENTILES, percentiles, strict=True)
    }


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Correlation of the ranks, equal values sharing their mean rank; None if one of them is constant."""
    ranks = []
    for values in (first, second):
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(count) - (count - 1) / 2)[place])
    if min(rank.std() for rank in ranks) == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
