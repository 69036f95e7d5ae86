"""Several traces as one stream of requests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from traces.prefix import Prefix
from traces.trace import INTEGERS, SECONDS, TEXTS, Report, Trace
from traces.transforms.common import require_arrivals

ABSENT = {"max_tokens": -1, "turn": 0, "priority": 0, "n": 1}  # where another part has the column
MOST_IDS = 200_000_000  # of content, after division into blocks that all parts share


def own_rate(trace: Trace) -> float:
    """Requests/s as `Trace.rescaled` counts them."""
    require_arrivals(trace, "trace=mix")
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0])
    if span_s == 0:
        raise ValueError(f"trace=mix: the requests of {trace.name} arrive all at once, so that they have no rate")
    return (len(trace) - 1) / span_s


def mixed(parts: Sequence[Trace], weights: Sequence[float], rate: float | None = None) -> Trace:
    """The parts superposed: each rescaled to its share of `rate` (by default the sum of their own rates), requests/s.

    A part's share is its weight over the sum of all. The mix ends where the shortest part does, so that the shares
    hold for all of it; within a part order and burstiness stay. Names of sessions, users and requests get the part's
    name before them, and content is shared within a part only.
    """
    shares = np.asarray(weights, float) / math.fsum(weights)
    total = math.fsum(map(own_rate, parts)) if rate is None else rate
    whole = min(len(part) / share for part, share in zip(parts, shares, strict=True))
    counts = [min(len(part), max(2, round(whole * share))) for part, share in zip(parts, shares, strict=True)]
    scaled = [part.limit(count).rescaled(total * share) for part, count, share in zip(parts, counts, shares, strict=True)]
    labels = labelled([part.name for part in parts])
    order = np.argsort(np.concatenate([part.arrival_s for part in scaled]), kind="stable")
    columns: dict[str, object] = {}
    for name in (*INTEGERS, *SECONDS, *TEXTS):
        column = joined(name, scaled, labels)
        if column is not None:
            columns[name] = [column[row] for row in order] if isinstance(column, list) else column[order]
    prefix = content(scaled)
    return Trace(
        name="mix",
        prefix=None if prefix is None else prefix.take(order),
        report=report(scaled, labels, total, shares),
        **columns,  # type: ignore[arg-type]
    )


def labelled(names: Sequence[str]) -> list[str]:
    """The names, those that occur more than once with a number behind them."""
    return [f"{name}{names[:row].count(name) + 1}" if names.count(name) > 1 else name for row, name in enumerate(names)]


def joined(name: str, parts: Sequence[Trace], labels: Sequence[str]) -> np.ndarray | list[str] | None:
    """One column over all parts; None when no part has it."""
    columns = [getattr(part, name) for part in parts]
    if all(column is None for column in columns):
        return None
    if name in TEXTS:
        if name == "request_id":
            columns = [part.ids() for part in parts]
        texts: list[str] = []
        for part, column, label in zip(parts, columns, labels, strict=True):
            texts += [f"{label}/{text}" if text and name != "pauses" else text for text in column or [""] * len(part)]
        return texts
    absent = ABSENT.get(name, math.nan)
    filled = [np.full(len(part), absent) if values is None else values for part, values in zip(parts, columns, strict=True)]
    return np.concatenate(filled)


def content(parts: Sequence[Trace]) -> Prefix | None:
    """Who shares what, in blocks of the greatest common divisor of the parts' block sizes; parts share nothing."""
    sizes = [part.prefix.hash_block_tokens for part in parts if part.prefix is not None]
    if not sizes:
        return None
    size = math.gcd(*sizes)
    ids, lengths, used = [], [], 0
    for part in parts:
        prefix = part.prefix
        if prefix is None:
            lengths.append(np.zeros(len(part), np.int64))
            continue
        pieces = prefix.hash_block_tokens // size  # ids below MOST_IDS stay far from the end of 64 bits
        full = np.minimum(np.diff(prefix.offsets), prefix.prompt_tokens // prefix.hash_block_tokens)
        if used + int(full.sum()) * pieces > MOST_IDS:
            raise ValueError(
                f"trace=mix: blocks of {sizes} tokens have too small a common divisor, {size}, for so many prompts"
            )
        rows = np.repeat(prefix.offsets[:-1] - np.concatenate(([0], np.cumsum(full)[:-1])), full) + np.arange(full.sum())
        known, numbers = np.unique(prefix.ids[rows], return_inverse=True)
        ids.append(used + (numbers[:, None] * pieces + np.arange(pieces)).ravel())
        lengths.append(full * pieces)
        used += len(known) * pieces
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    return Prefix(size, np.concatenate(ids), offsets, np.concatenate([part.prompt_tokens for part in parts]))


def report(parts: Sequence[Trace], labels: Sequence[str], rate: float, shares: np.ndarray) -> Report:
    """The reports of all parts, each line with the part's name."""
    told = ", ".join(
        f"{len(part):,} of {label} ({share:.3g})" for part, label, share in zip(parts, labels, shares, strict=True)
    )
    whole = Report(source="mix", read=sum(part.report.read for part in parts))
    whole.notes.append(f"requests: {told}, {rate:.4g} requests/s together")
    for part, label in zip(parts, labels, strict=True):
        whole.notes += [f"{label}: {part.report.source}", *(f"{label}: {note}" for note in part.report.notes)]
        for reason, count in part.report.dropped.items():
            whole.drop(f"{label}: {reason}", count)
    return whole
