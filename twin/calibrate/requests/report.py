"""A calibration in words and tables: on the terminal, and as a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.doubt import Doubt
from twin.calibrate.requests.errors import MAKESPAN_TARGET, METRICS, TARGETS, Errors
from twin.calibrate.requests.fit import Calibration, Foretold
from twin.calibrate.scrapes.compare import Comparison
from twin.calibrate.scrapes.told import apart_rows, figure_rows, heading, share_rows

Rows = list[tuple[str, ...]]
UNITS = {
    "scale": "",
    "constant": "s a step",
    "mixed": "s a step with prefill",
    "prefill": "s a prompt token",
    "decode": "s a decoding sequence",
    "context": "s a token of context",
    "attention": "s a query-key pair",
}
ABOUT_DOUBT = """Intervals are 90 %, by resampling blocks of neighbouring requests; they hold no error of the model's form.
*Prior's share* is how much of a coefficient was known before the log was read."""
MOSTLY_PRIOR = 0.5  # of a coefficient: the log says less of it than was thought before


@dataclass(frozen=True, eq=False)
class Account:
    """All that a report tells."""

    log: str  # file, requests
    calibration: Calibration  # from all requests that can be fitted
    doubt: Doubt
    fitted: Foretold  # of those requests themselves
    held_out: Foretold | None  # the second half, by a calibration from the first
    ranges: dict[str, list[int]]
    notes: list[str]
    command: str
    scraped: Comparison | None = None  # the server's own figures, and the calibrated simulator's
    server: tuple[str, ...] = ()  # what was taken from the server's own words, a line each


def summary(account: Account) -> list[str]:
    """Lines for the terminal."""
    told = account.held_out or account.fitted
    what = "held out (first half fitted, second foretold)" if account.held_out else "fitted, none held out"
    lines = [account.log, f"KV cache: {account.calibration.pool.blocks:,} blocks ({account.calibration.pool.source})", ""]
    lines += aligned(coefficients(account))
    lines += ["", f"errors in percent, {told.errors.requests:,} requests {what}:", *aligned(error_table(told.errors))]
    lines += [f"makespan {told.errors.makespan:+.2f}", *stall_lines(told)]
    missed = told.errors.missed_targets()
    lines.append(f"beyond the targets: {', '.join(missed)}" if missed else "all within the targets")
    if account.scraped is not None:
        lines += [
            "",
            heading(account.scraped),
            *aligned(figure_rows(account.scraped)),
            *aligned(apart_rows(account.scraped)),
        ]
    return lines + [f"note: {note}" for note in account.notes]


def markdown(account: Account) -> str:
    """The report."""
    calibration = account.calibration
    parts = ["# Calibration from a request log", account.log + "  ", f"`{account.command}`", "## Coefficients"]
    parts += [piped(coefficients(account)), f"Prior: {calibration.problem.prior.source}. {ABOUT_DOUBT}"]
    parts += ["## KV cache", f"{calibration.pool.blocks:,} blocks: {calibration.pool.source}.", "## Errors"]
    if account.held_out is not None:
        parts += ["Held out: the first half of the requests fitted, the second foretold; percent.", *told(account.held_out)]
    parts += ["All requests, fitted and foretold:", *told(account.fitted)]
    if account.scraped is not None:
        parts += against_scrapes(account.scraped)
    seen = [(name, *map(str, bounds)) for name, bounds in account.ranges.items()]
    parts += ["## Range", piped([("of a step", "least", "most"), *seen])]
    if account.server:
        parts += ["## The server", "\n".join(f"- {line}" for line in account.server)]
    parts += ["## Notes", "\n".join(f"- {note}" for note in account.notes) or "None."]
    return "\n\n".join(parts) + "\n"


def against_scrapes(scraped: Comparison) -> list[str]:
    """The server's figures beside the simulator's, and its histograms bucket by bucket."""
    parts = ["## Against the scrapes", heading(scraped), piped(figure_rows(scraped)), piped(apart_rows(scraped))]
    for shares in scraped.shares:
        parts += [f"### {shares.name[0].upper()}{shares.name[1:]}", piped(share_rows(shares))]
    return parts


def told(foretold: Foretold) -> list[str]:
    """Tables and sentences of one set of requests."""
    missed = foretold.errors.missed_targets()
    verdict = f"Beyond the targets: {', '.join(missed)}." if missed else "All within the targets."
    makespan = f"Makespan {foretold.errors.makespan:+.2f} % (target {MAKESPAN_TARGET:g} %)."
    return [piped(error_table(foretold.errors, targets=True)), " ".join((makespan, verdict)), *stall_lines(foretold)]


def stall_lines(foretold: Foretold) -> list[str]:
    """What came of the requests that stalled, where the pool was short."""
    if not foretold.pool_short and not foretold.stalled:
        return []
    if not foretold.stalled:
        return [f"no request of the log stalled; in the simulation {foretold.falsely} did"]
    missing = [name for name in foretold.stalled if name not in foretold.named]
    words = f"stalled for want of blocks: {len(foretold.stalled)} in the log, of which the simulation names "
    words += f"{len(foretold.named)} (recall {foretold.recall:.2f}), and {foretold.falsely} more"
    return [words + (f"; not named: {', '.join(missing[:20])}" if missing else "")]


def coefficients(account: Account) -> Rows:
    """A row a term."""
    calibration, doubt = account.calibration, account.doubt
    prior = calibration.problem.prior
    rows: Rows = [("term", "value", "90 % interval", "prior", "prior's share", "unit")]
    for place, name in enumerate(calibration.problem.basis.terms):
        fixed = not prior.free[place]
        interval = "fixed" if fixed else f"{doubt.low[place]:.3g} to {doubt.high[place]:.3g}"
        before = f"{prior.mean[place]:.3g}" + ("" if fixed else f" +- {prior.sd[place]:.2g}")
        share = f"{100 * doubt.prior_share[place]:.0f} %"
        rows.append((name, f"{calibration.theta[place]:.4g}", interval, before, share, UNITS[name]))
    return rows


def error_table(errors: Errors, targets: bool = False) -> Rows:
    """A row a metric; with `targets`, each number beside what it should be at most."""
    quantiles = ("mean", "p50", "p90", "p99")
    rows: Rows = [("", *quantiles, "each request, p90", "correlation")]
    for metric in METRICS:
        signed = [shown(errors.signed[metric][name], TARGETS[metric][name] if targets else None) for name in quantiles]
        each = shown(errors.each[metric], TARGETS[metric]["each"] if targets else None, sign="")
        rows.append((metric.upper(), *signed, each, f"{errors.correlation[metric]:.3f}"))
    return rows


def shown(value: float, target: float | None, sign: str = "+") -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:{sign}.2f}" + ("" if target is None else f" ({target:g})")


def doubts(found: Doubt, terms: Sequence[str], free: np.ndarray) -> list[str]:
    """What the log does not tell, in words."""
    notes = []
    if found.inseparable:
        pairs = ", ".join(f"{one} and {other} ({value:+.2f})" for one, other, value in found.inseparable)
        notes = [f"this log knows only a combination of {pairs}: so their errors correlate; each alone rests on the prior"]
    shares = zip(terms, found.prior_share, free, strict=True)
    if mostly := [name for name, share, moves in shares if moves and share > MOSTLY_PRIOR]:
        notes.append(f"mostly from the prior, hardly from the log: {', '.join(mostly)}")
    return notes


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def piped(rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
