"""Scrapes in a file or in a folder of files, found by their content, and when each was made."""

from __future__ import annotations

import re
from pathlib import Path

from twin.calibrate.scrapes.exposition import Scrape, is_exposition, moment, read_exposition
from twin.calibrate.scrapes.range_query import read_range_query
from twin.calibrate.scrapes.series import Scrapes, side_by_side

# A time in a file's name: seconds since 1970, or a date as 2026-11-30T18-41-03Z or 20261130T184103.
NAMED_SECONDS = re.compile(r"(?<!\d)(\d{10}(?:\.\d+)?)(?!\d)")
NAMED_DATE = re.compile(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T_ -](\d\d)[-:_]?(\d\d)[-:_]?(\d\d)(?!\d)")
LOOP = "while sleep 5; do date +%s.%N; curl -s http://SERVER/metrics; done > FILE"


def read_scrapes(path: Path) -> Scrapes:
    """The scrapes in the file, or in all files of the folder. Raises ValueError, in one line."""
    if not path.exists():
        raise ValueError(f"metrics={path}: no such file")
    notes: list[str] = []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        scrapes = [scrape for file in files for scrape in of_file(file, notes, one_each=True)]
        if not scrapes:
            raise ValueError(f"metrics={path}: no file in this folder")
    else:
        scrapes = of_file(path, notes)
    return side_by_side(str(path), merged(scrapes), notes)


def of_file(path: Path, notes: list[str], one_each: bool = False) -> list[Scrape]:
    """Its scrapes, each with its time. `one_each`: a file of a folder may have its time from its name, or from its date."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if text.lstrip().startswith(("{", "[")):
        return read_range_query(path, text)
    if not is_exposition(text):
        raise ValueError(
            f"metrics={path}: no scrape of a vLLM's /metrics (lines vllm:...), nor the JSON of a Prometheus range query"
        )
    scrapes = read_exposition(path, text)
    if not scrapes:
        raise ValueError(f"metrics={path}: none of the metrics that are compared (vllm:num_requests_running, ...)")
    untimed = [number for number, scrape in enumerate(scrapes, start=1) if scrape.at_s is None]
    if untimed and one_each and len(scrapes) == 1:
        scrapes[0].at_s = named_time(path.name)
        if scrapes[0].at_s is None:
            scrapes[0].at_s = path.stat().st_mtime
            if not any("changed" in note for note in notes):
                notes.append(
                    f"{path.parent}: files without a time in them or in their names count as of when they were last changed"
                )
    elif untimed:
        raise ValueError(f"metrics={path}: scrape {untimed[0]} has no time; write one above each: {LOOP}")
    return scrapes


def named_time(name: str) -> float | None:
    """The time that a file's name holds; without a zone UTC."""
    if match := NAMED_SECONDS.search(name):
        return float(match[1])
    if match := NAMED_DATE.search(name):
        year, month, day, *clock = match.groups()
        return moment(f"{year}-{month}-{day}T{':'.join(clock)}Z")
    return None


def merged(scrapes: list[Scrape]) -> list[Scrape]:
    """Of one moment one: the answers to several queries."""
    found: dict[float | None, Scrape] = {}
    for scrape in scrapes:
        found.setdefault(scrape.at_s, Scrape(scrape.at_s)).samples.update(scrape.samples)
    return list(found.values())
