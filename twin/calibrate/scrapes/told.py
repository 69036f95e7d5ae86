"""A comparison with scrapes in words and tables."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from twin.calibrate.scrapes.compare import COUNT, PER_CENT, Comparison, Figure, Shares

Rows = list[tuple[str, ...]]


def heading(comparison: Comparison) -> str:
    """What is compared, and how the clocks were joined."""
    start = datetime.fromtimestamp(comparison.alignment.start_s, UTC)
    return (
        f"{comparison.source}: {comparison.scrapes} scrapes over {comparison.seconds:,.1f} s; first arrival "
        f"{start:%Y-%m-%d %H:%M:%S} UTC ({comparison.alignment.words}; counters and log differ by "
        f"{100 * comparison.alignment.apart:.1f} % on average)"
    )


def figure_rows(comparison: Comparison) -> Rows:
    rows: Rows = [("", "scraped", "simulated", "error")]
    return rows + [
        (figure.name, number(figure.scraped), number(figure.simulated), error(figure)) for figure in comparison.figures
    ]


def number(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def error(figure: Figure) -> str:
    if not np.isfinite(figure.error):
        return "-"
    if figure.told_in == COUNT:
        return f"{figure.error:+,.0f}"
    return f"{figure.error:+.1f} {'%' if figure.told_in == PER_CENT else 'points'}"


def share_rows(shares: Shares) -> Rows:
    """A row a bucket that holds anything."""
    rows: Rows = [("up to, s", "scraped, %", "simulated, %", "points")]
    for edge, scraped, simulated in zip(shares.edges, shares.scraped, shares.simulated, strict=True):
        if scraped or simulated:
            rows.append((f"{edge:g}", f"{scraped:.2f}", f"{simulated:.2f}", f"{simulated - scraped:+.2f}"))
    return rows


def apart_rows(comparison: Comparison) -> Rows:
    """A row a histogram: where the two are furthest apart."""
    rows: Rows = [("histogram", "largest difference of the share up to an edge")]
    for shares in comparison.shares:
        points, edge = shares.apart
        rows.append((shares.name, f"{points:+.1f} points, up to {edge:g} s"))
    return rows
