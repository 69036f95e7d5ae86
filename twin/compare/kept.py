"""Which requests are measured: what is left out as warm-up, by which rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from twin.compare.traces import Scene
from twin.compare.variants import Variant
from twin.compare.warmup import arrival_order, in_system, mser5
from twin.results.load import Run


@dataclass(frozen=True)
class Options:
    """How to compare. `warmup`: auto (what the runs were told, else MSER-5), mser5, none."""

    baseline: str | None = None
    confidence: float = 0.95
    warmup: str = "auto"
    warmup_s: float = 0.0
    warmup_requests: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)  # the SLO; empty: that of the runs


def seeds_of(scene: Scene, variant: Variant) -> list[int]:
    """Those that are compared: the common ones, where requests are paired."""
    return scene.seeds if scene.paired else sorted(variant.runs)


def kept_rows(scene: Scene, options: Options) -> tuple[dict[tuple[str, int], np.ndarray], str, list[str]]:
    """Which requests are measured, by variant and seed; the same of every variant where they are paired."""
    cuts: dict[tuple[str, int], tuple[float, int]] = {}
    notes = []
    ruled = False
    for variant in scene.variants:
        for seed in seeds_of(scene, variant):
            run = variant.runs[seed]
            told_s, told = _told(run, options)
            if options.warmup == "mser5" or (options.warmup == "auto" and not told_s and not told):
                ruled = True
                found = mser5(in_system(run.requests, arrival_order(run.requests)))
                told = found.observations
                if not found.found:
                    notes.append(f"{variant.label}, seed {seed}: MSER-5 finds no steady state; nothing left out for it")
            cuts[variant.label, seed] = told_s, told
    kept = {}
    least, most = None, 0
    for (label, seed), own in cuts.items():
        group = [cut for (_, other), cut in cuts.items() if other == seed] if scene.paired else [own]
        run = next(variant for variant in scene.variants if variant.label == label).runs[seed]
        keep = _after(run, max(cut[0] for cut in group), max(cut[1] for cut in group))
        if not keep.any():
            keep[:] = True
            notes.append(f"{label}, seed {seed}: all requests are in the warm-up; none is left out")
        kept[label, seed] = keep
        out = int((~keep).sum())
        least, most = out if least is None else min(least, out), max(most, out)
    rule = "MSER-5 on the requests in the system" if ruled else "as told" if most else "none"
    span = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return kept, f"warm-up: {rule}; {span} first requests left out" if rule != "none" else "warm-up: none", notes


def _told(run: Run, options: Options) -> tuple[float, int]:
    if options.warmup_s or options.warmup_requests:
        return options.warmup_s, options.warmup_requests
    if options.warmup == "none":
        return 0.0, 0
    return float(run.config.get("warmup_s") or 0.0), int(run.config.get("warmup_requests") or 0)


def _after(run: Run, warmup_s: float, warmup_requests: int) -> np.ndarray:
    """As `twin.results.window` has it."""
    arrival_s = run.requests["arrival_s"]
    keep = ~(arrival_s < warmup_s)
    keep[np.argsort(arrival_s, kind="stable")[:warmup_requests]] = False
    return keep
