"""The scraped figures and the simulated ones beside each other, with signed errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twin.calibrate.requests.log import RequestLog
from twin.calibrate.scrapes.alignment import Alignment
from twin.calibrate.scrapes.exposition import HISTOGRAMS
from twin.calibrate.scrapes.series import Histogram, Scrapes
from twin.calibrate.scrapes.simulated import Simulated
from twin.sim.simulation import Outcome

PER_CENT, POINTS, COUNT = "%", "points", "more or less"
QUANTILES = (0.5, 0.9, 0.99)
RATES = {"request_success": "requests /s", "prompt_tokens": "prompt tokens /s", "generation_tokens": "generated tokens /s"}


@dataclass(frozen=True)
class Figure:
    """One number, scraped and simulated, and how the error is told: in percent of it, or as a difference."""

    name: str
    scraped: float
    simulated: float
    told_in: str = PER_CENT

    @property
    def error(self) -> float:
        """nan where there is nothing to be a percentage of."""
        if self.told_in != PER_CENT:
            return self.simulated - self.scraped
        return 100 * (self.simulated / self.scraped - 1) if self.scraped else float("nan")


@dataclass(frozen=True, eq=False)
class Shares:
    """Observations by bucket in percent, scraped and simulated; one entry an edge."""

    name: str
    edges: np.ndarray
    scraped: np.ndarray
    simulated: np.ndarray

    @property
    def apart(self) -> tuple[float, float]:
        """(points, edge in seconds): the largest signed difference of the shares up to an edge (Kolmogorov, Smirnov)."""
        difference = np.cumsum(self.simulated - self.scraped)
        place = int(np.argmax(np.abs(difference)))
        return float(difference[place]), float(self.edges[place])


@dataclass(frozen=True, eq=False)
class Comparison:
    source: str
    scrapes: int
    seconds: float
    alignment: Alignment
    figures: list[Figure]
    shares: list[Shares]
    notes: list[str]


def compare(scrapes: Scrapes, log: RequestLog, alignment: Alignment, outcome: Outcome) -> Comparison:
    """Both over the time from the first scrape to the last."""
    at_s = scrapes.at_s - alignment.start_s
    run = Simulated(outcome, float(at_s[0]), float(at_s[-1]))
    figures = [*rates(scrapes, run), *gauges(scrapes, run, at_s), *counts(scrapes, run, log.prompt_ids is not None)]
    shares = []
    for name, words in HISTOGRAMS.items():
        scraped = scrapes.histogram(name)
        if scraped is None or not scraped.number:
            continue
        simulated = run.histogram(name, scraped.edges)
        if simulated.number:
            figures += moments(words, scraped, simulated)
            sides = (100 * one.counts / one.number for one in (scraped, simulated))
            shares.append(Shares(words, scraped.edges, *sides))
    notes = list(scrapes.notes)
    if at_s[0] > 0:
        notes.append(f"the first scrape is {at_s[0]:,.1f} s after the first arrival: what came before is not compared")
    if (last_s := float(np.nanmax(log.finish_s))) > at_s[-1]:
        notes.append(f"the last scrape is {last_s - at_s[-1]:,.1f} s before the log's last token")
    return Comparison(scrapes.source, len(scrapes), scrapes.seconds, alignment, figures, shares, notes)


def rates(scrapes: Scrapes, run: Simulated) -> Iterator[Figure]:
    for name, words in RATES.items():
        scraped, simulated = scrapes.added(name), run.counter(name)
        if scraped is not None and simulated is not None:
            yield Figure(words, float(scraped[-1]) / scrapes.seconds, simulated / scrapes.seconds)


def gauges(scrapes: Scrapes, run: Simulated, at_s: np.ndarray) -> Iterator[Figure]:
    """At the moments of the scrapes, no others: what happened between them no gauge tells."""
    for name, words in (("num_requests_running", "running"), ("num_requests_waiting", "waiting")):
        if (scraped := scrapes.gauge(name)) is not None:
            known = np.isfinite(scraped)
            simulated = run.gauge(name, at_s)[known]
            yield Figure(f"{words}, mean of the scrapes", float(scraped[known].mean()), float(simulated.mean()))
    if (usage := scrapes.gauge("kv_cache_usage_perc")) is not None:
        known = np.isfinite(usage)
        real, ours = 100 * usage[known], 100 * run.gauge("kv_cache_usage_perc", at_s)[known]
        yield Figure("KV cache in use, mean, %", float(real.mean()), float(ours.mean()), POINTS)
        yield Figure("KV cache in use, most, %", float(real.max()), float(ours.max()), POINTS)


def counts(scrapes: Scrapes, run: Simulated, contents: bool) -> Iterator[Figure]:
    """Preemptions, and what the prefix cache had; the latter only where the log has the `contents` of its prompts."""
    if (preemptions := scrapes.added("num_preemptions")) is not None:
        yield Figure("preemptions", float(preemptions[-1]), run.counter("num_preemptions") or 0.0, COUNT)
    hits = hit_share(scrapes)
    prompts = run.counter("prompt_tokens")
    if hits is not None and contents and prompts:
        yield Figure(
            "prompt tokens from the cache, %", hits, 100 * (run.counter("prompt_tokens_cached") or 0.0) / prompts, POINTS
        )


def hit_share(scrapes: Scrapes) -> float | None:
    """Percent. Versions since 0.21 count the cached tokens of each prompt once; the older pair counts a prompt again each
    time that it is looked up and refused."""
    for hit, asked in (("prompt_tokens_cached", "prompt_tokens"), ("prefix_cache_hits", "prefix_cache_queries")):
        hits, of = scrapes.added(hit), scrapes.added(asked)
        if hits is not None and of is not None and of[-1] > 0:
            return 100 * float(hits[-1] / of[-1])
    return None


def moments(words: str, scraped: Histogram, simulated: Histogram) -> Sequence[Figure]:
    """The mean is exact; quantiles are those of the buckets, on both sides, as a dashboard shows them."""
    quantiles = [Figure(f"  p{100 * q:g}", scraped.quantile(q), simulated.quantile(q)) for q in QUANTILES]
    return [Figure(f"{words}, mean, s", scraped.mean, simulated.mean), *quantiles]
