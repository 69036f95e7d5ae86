"""What Prometheus answers to a range query, as its HTTP API and `promtool query range --format=json` give it.

The series must be raw ones, `{__name__=~"vllm:.*"}`: rates and sums have lost their names.
"""

from __future__ import annotations

import json
from math import isfinite, nan
from pathlib import Path
from typing import Any

from twin.calibrate.scrapes.exposition import READ, Scrape, key_of


def read_range_query(path: Path, text: str) -> list[Scrape]:
    """One scrape a moment, in order. Raises ValueError, in one line."""
    scrapes: dict[float, Scrape] = {}
    nameless = 0
    for series in series_of(path, text):
        labels = dict(series["metric"])
        name = labels.pop("__name__", None)
        nameless += name is None
        if name not in READ:
            continue
        key = key_of(name, labels)
        for pair in series["values"]:
            try:
                at_s, value = float(pair[0]), float(pair[1])
            except (TypeError, ValueError, LookupError, OverflowError):
                at_s = value = nan
            if not isfinite(at_s):
                raise ValueError(f'metrics={path}: {name} has {str(pair)[:60]}, must be [seconds, "value"]')
            scrapes.setdefault(at_s, Scrape(at_s)).samples[key] = value
    if not scrapes:
        why = f"{nameless} series without a name: rates and sums have none" if nameless else "no series of vLLM"
        raise ValueError(f'metrics={path}: {why}; query {{__name__=~"vllm:.*"}}')
    return [scrapes[at_s] for at_s in sorted(scrapes)]


def series_of(path: Path, text: str) -> list[dict[str, Any]]:
    """The result of the query: a matrix."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"metrics={path}: not JSON ({error}); is the file cut off?") from None
    if isinstance(answer, dict) and answer.get("status") == "error":
        raise ValueError(f"metrics={path}: Prometheus answered: {str(answer.get('error'))[:200]}")
    data = answer.get("data") if isinstance(answer, dict) else None
    result = data.get("result") if isinstance(data, dict) else answer
    if not isinstance(result, list) or not all(is_series(entry) for entry in result):
        raise ValueError(f"metrics={path}: no answer to a range query (api/v1/query_range): series with metric and values")
    return result


def is_series(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("metric"), dict) or not isinstance(entry.get("values"), list):
        return False
    return all(isinstance(value, str) for value in entry["metric"].values())
