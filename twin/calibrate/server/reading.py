"""The files that tell of a server: a start-up log or a scrape, told apart by their content."""

from __future__ import annotations

from pathlib import Path

from twin.calibrate.scrapes.exposition import is_exposition, read_exposition
from twin.calibrate.scrapes.reading import read_scrapes
from twin.calibrate.server.cache_info import INFO, read_cache_info
from twin.calibrate.server.findings import Said
from twin.calibrate.server.startup_log import SIGNS, is_startup_log, read_startup_log

NAME = "cache_config_info"


def read_served(path: Path) -> Said:
    """What the file says: a start-up log, or a scrape."""
    if not path.is_file():
        raise ValueError(f"served={path}: {'a folder, must be a file' if path.is_dir() else 'no such file'}")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if is_startup_log(text):
        return read_startup_log(path, text)
    if not is_exposition(text):
        signs = ", ".join(SIGNS[:2])
        raise ValueError(
            f"served={path}: neither a vLLM's start-up log ({signs}, ...) nor a scrape of its /metrics (vllm:...)"
        )
    for scrape in reversed(read_exposition(path, text, "served")):
        infos = [dict(labels) for (name, labels) in scrape.samples if name == INFO]
        if infos:
            return read_cache_info(path.name, infos[-1])
    raise ValueError(f"served={path}: a scrape without {INFO}, which alone tells of the configuration")


def read_info(path: Path) -> Said:
    """What scrapes over time say: nothing, where they lack the one metric that tells of the configuration."""
    labels = read_scrapes(path).labels_of(NAME)
    return read_cache_info(path.name, labels[-1]) if labels else Said(path.name)
