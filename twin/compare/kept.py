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
    """Which requests are measured, by variant and seed; the same of every variant where they are paired.

    Bool arrays, a row of requests; the rule and what it left out, in words; notes. Raises ValueError where `options` name a
    warm-up that leaves none; one that the runs were told, and that leaves none, is not heeded.
    """
    cuts, ruled, notes = _cuts(scene, options)
    asked = " ".join(f"{name}={value}" for name in ("warmup_s", "warmup_requests") if (value := getattr(options, name)))
    kept = {}
    for variant in scene.variants:
        for seed in seeds_of(scene, variant):
            own = cuts[variant.label, seed]
            group = [cut for (_, other), cut in cuts.items() if other == seed] if scene.paired else [own]
            keep = _after(variant.runs[seed], max(cut[0] for cut in group), max(cut[1] for cut in group))
            if not keep.any():
                if asked:
                    raise ValueError(f"{asked}: all {len(keep):,} requests of {variant.label} are in the warm-up")
                keep[:] = True
                notes.append(f"{variant.label}, seed {seed}: all requests are in the warm-up; none is left out")
            kept[variant.label, seed] = keep
    out = [int((~keep).sum()) for keep in kept.values()]
    if not ruled and not any(out):
        return kept, "warm-up: none", notes
    span = f"{max(out):,}" if min(out) == max(out) else f"{min(out):,} to {max(out):,}"
    rule = "MSER-5 on the requests in the system" if ruled else "as told"
    return kept, f"warm-up: {rule}; {span} first requests left out", notes


def _cuts(scene: Scene, options: Options) -> tuple[dict[tuple[str, int], tuple[float, int]], bool, list[str]]:
    """What each run by itself would leave out, seconds and requests; whether a rule found it; notes."""
    cuts: dict[tuple[str, int], tuple[float, int]] = {}
    notes = []
    ruled = False
    for variant in scene.variants:
        unsteady = []
        for seed in seeds_of(scene, variant):
            run = variant.runs[seed]
            told_s, told = _told(run, options)
            if options.warmup == "mser5" or (options.warmup == "auto" and not told_s and not told):
                ruled = True
                told, steady = mser5(in_system(run.requests, arrival_order(run.requests)))
                unsteady += [str(seed)] * (not steady)
            cuts[variant.label, seed] = told_s, told
        if unsteady:
            where = f"seed {', '.join(unsteady)}"
            notes.append(f"{variant.label}: MSER-5 finds no steady state ({where}); nothing is left out on its account")
    return cuts, ruled, notes


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
