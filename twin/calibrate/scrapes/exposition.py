"""Prometheus' text format, as `curl http://SERVER/metrics` prints it: one scrape after the other in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PREFIX = "vllm:"
COUNTERS = (
    "request_success", "prompt_tokens", "prompt_tokens_cached", "generation_tokens", "num_preemptions",
    "prefix_cache_queries", "prefix_cache_hits",
)  # fmt: skip
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "cache_config_info")
HISTOGRAMS = {  # name in vLLM: the times it holds, in words
    "time_to_first_token_seconds": "time to the first token",
    "inter_token_latency_seconds": "between two tokens",
    "request_time_per_output_token_seconds": "time per output token",
    "e2e_request_latency_seconds": "whole request",
    "request_queue_time_seconds": "in the queue",
}
READ = frozenset(
    PREFIX + name
    for name in (
        *GAUGES,
        *(f"{name}_total" for name in COUNTERS),
        *(f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")),
    )
)
# A line that says when the scrape below it was made: seconds since 1970 or a date, with or without #.
SECONDS = re.compile(r"#?\s*(\d{9,10}(?:\.\d+)?)")
DATE = re.compile(r"#?\s*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)")

Key = tuple[str, tuple[tuple[str, str], ...]]  # name, and labels in alphabetical order


@dataclass
class Scrape:
    """The samples of one moment."""

    at_s: float | None = None  # seconds since 1970
    samples: dict[Key, float] = field(default_factory=dict)


def key_of(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


def moment(text: str) -> float | None:
    """The time that a line or a name is, and nothing else; a date without a zone is UTC."""
    if match := SECONDS.fullmatch(text.strip()):
        return float(match[1])
    if match := DATE.fullmatch(text.strip()):
        try:
            date = datetime.fromisoformat(match[1])
        except ValueError:  # month 13
            return None
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return None


def is_exposition(text: str) -> bool:
    return any(line.startswith((PREFIX, f"# TYPE {PREFIX}", f"# HELP {PREFIX}")) for line in text.splitlines())


def read_exposition(path: Path, text: str, option: str = "metrics") -> list[Scrape]:
    """The scrapes in the text, of which a new one begins with a time, or where a sample comes again.

    Only what is in READ is kept, and no last line without an end, which may be cut off. Raises ValueError, in one line, for
    a sample that cannot be read.
    """
    scrapes: list[Scrape] = []
    current = Scrape()
    known: dict[str, Key] = {}  # by the text before the value: a series comes again in each scrape
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        if not line.startswith(PREFIX):
            if (at_s := moment(line)) is not None:
                if current.samples:
                    scrapes.append(current)
                current = Scrape(at_s)
            continue
        if line.partition("{")[0].partition(" ")[0] not in READ:
            continue
        series, value, stamp = cut(line)
        if series not in known or value is None:
            sample = parsed(path, line, number, option)
            known[series] = key_of(sample.name, sample.labels)
            value, stamp = float(sample.value), sample.timestamp
        if known[series] in current.samples:
            scrapes.append(current)
            current = Scrape()
        current.samples[known[series]] = value
        if stamp is not None and current.at_s is None:
            current.at_s = float(stamp)
    return [*scrapes, current] if current.samples else scrapes


def cut(line: str) -> tuple[str, float | None, float | None]:
    """The text of the series, the value and the time in seconds; no value where it is not as simple as that."""
    end = line.rfind("}") + 1 or line.find(" ")
    try:
        value, *stamp = (float(word) for word in line[end:].split())
    except ValueError:
        return line, None, None
    return line[:end], value if len(stamp) < 2 else None, stamp[0] / 1000 if stamp else None


def parsed(path: Path, line: str, number: int, option: str) -> Any:
    """The sample in this line, read by Prometheus' own parser."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise ValueError(
            f"{option}={path}: prometheus_client, which reads scrapes, is missing: pip install prometheus-client"
        ) from None
    try:
        (family,) = text_string_to_metric_families(line)
        return family.samples[0]
    except (ValueError, IndexError) as error:
        raise ValueError(f"{option}={path}, line {number}: no Prometheus sample ({error}); is the file cut off?") from None
