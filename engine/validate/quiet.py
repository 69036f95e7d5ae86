"""A quiet place to measure in: one core, no collector of garbage, and a look at who else was there."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.profile.stepper import no_garbage_collection


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage while steps are measured: it is done before, and what is there now is not looked at again."""
    gc.collect()
    gc.freeze()
    try:
        with no_garbage_collection():
            yield
    finally:
        gc.unfreeze()


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """This process and its threads to come on one core; None, or a system that has no such thing: wherever they are."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def core_for(config: dict[str, Any], device: str) -> int | None:
    """For an engine that computes in the thread that schedules: the last core, since interrupts prefer the first."""
    one_thread = device == "cpu" and config["engine"]["threads"] == 1 and not config["scheduler"]["async_scheduling"]
    if not (config["validate"]["pin"] and one_thread and hasattr(os, "sched_getaffinity")):
        return None
    return max(os.sched_getaffinity(0))
