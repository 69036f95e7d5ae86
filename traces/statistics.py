"""What a trace is like, in a few numbers that can be compared with its source's."""

import numpy as np

from traces.trace import Trace

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def statistics(trace: Trace) -> dict[str, object]:
    """Counts, rates, lengths.

    `rate` is requests/s as `Trace.rescaled` defines it; `gap_cv` the coefficient of variation of the gaps;
    `fano_10s` and `fano_60s` the variance over the mean of the arrivals in windows of that length from the first
    arrival on (1 for Poisson); `prompt_tokens` and `output_tokens` hold mean, max and percentiles (p1 to p99);
    `spearman` is the rank correlation of prompt and output. None where a number does not exist.
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
    }


def fano(arrival_s: np.ndarray, window_s: float) -> float | None:
    """Variance over mean of the number of arrivals in whole windows of `window_s` seconds; None below two windows."""
    since = arrival_s - arrival_s[0]
    windows = int(since[-1] // window_s)
    if windows < 2:
        return None
    counts = np.bincount((since // window_s).astype(np.int64))[:windows]
    return float(counts.var() / counts.mean())


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
