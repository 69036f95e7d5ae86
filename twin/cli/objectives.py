"""Objectives that a single run cannot judge: those of statistics, for which `twin capacity` looks for a rate."""

from collections.abc import Mapping
from typing import Any

JUDGED = {f"{metric}_{kind}" for metric in ("ttft", "tpot", "e2e") for kind in ("s", "p99")} | {"attainment"}


def not_judged(slo: Mapping[str, Any]) -> list[str]:
    """A note that names those that are given (by a preset of `slo`, say); nothing where there is none."""
    given = [f"slo.{name}" for name, limit in slo.items() if limit is not None and name not in JUDGED]
    return [f"{', '.join(given)}: an objective of twin capacity; a run's attainment leaves it out"] if given else []
