"""Which variants served the same requests: only those can be compared request by request."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from twin.compare.variants import SEED, Variant, setting_words
from twin.results.columns import Table
from twin.results.load import Run, RunError

SAME = ("request_id", "prompt_tokens", "output_tokens")  # and when they arrive, unless that depends on the policy


@dataclass
class Scene:
    """Variants over the same traces, and the seeds that all of them have."""

    name: str  # what its variants share and other scenes' do not; empty where there is one scene
    variants: list[Variant]
    seeds: list[int]
    paired: bool = True
    notes: list[str] = field(default_factory=list)

    def labels(self) -> list[str]:
        """How the variants are called here."""
        return [variant.label for variant in self.variants]


def scenes(variants: Sequence[Variant], different: bool = False) -> list[Scene]:
    """Puts together what served the same requests.

    Of folders of single runs all must have: else RunError says what differs, unless `different` allows it; then they are
    compared without pairs. The points of a sweep fall into as many scenes as there are traces.
    """
    found: list[Scene] = []
    for variant in variants:
        for scene in found:
            if (seeds := [seed for seed in scene.seeds if seed in variant.runs]) and not _apart(scene, variant, seeds):
                scene.variants.append(variant)
                scene.seeds = seeds
                break
        else:
            found.append(Scene("", [variant], sorted(variant.runs)))
    swept = all(variant.settings for variant in variants)
    if len(found) > 1 and not swept:
        first, other = found[0].variants[0], found[1].variants[0]
        if not different:
            raise RunError(
                f"{first.path} and {other.path} did not serve the same requests: {difference(first, other)}; "
                "traces=different compares them all the same, without pairs"
            )
        note = f"the traces differ ({difference(first, other)}): nothing is paired, differences may be the traces'"
        return [Scene("", list(variants), [], paired=False, notes=[note])]
    for scene in found:
        _note_seeds(scene)
        if len(found) > 1:
            _name(scene)
    return found


def difference(first: Variant, second: Variant) -> str:
    """What tells two variants' requests apart, in words."""
    seeds = sorted(set(first.runs) & set(second.runs))
    if not seeds:
        return f"seed {_listed(first)} and seed {_listed(second)}"
    a, b = first.runs[seeds[0]], second.runs[seeds[0]]
    options = [
        f"{section}.{key} {here.get(key)} and {there.get(key)}"
        for section in ("trace",)
        for here, there in [(a.config.get(section) or {}, b.config.get(section) or {})]
        for key in {**here, **there}
        if here.get(key) != there.get(key)
    ]
    return "; ".join([*options, _columns(a.requests, b.requests, closed(a) or closed(b)) or "nothing in their tables"])


def closed(run: Run) -> bool:
    """Whether arrivals depend on what was served before: sessions or users that wait for their answers."""
    arrivals = str((run.config.get("trace") or {}).get("arrivals") or "")
    return "closed(" in arrivals or bool((run.config.get("simulate") or {}).get("closed_sessions"))


def _apart(scene: Scene, variant: Variant, seeds: Sequence[int]) -> bool:
    first = scene.variants[0]
    return any(
        bool(_columns(first.runs[seed].requests, variant.runs[seed].requests, closed(first.runs[seed]))) for seed in seeds
    )


def _columns(a: Table, b: Table, loose: bool) -> str:
    """The first way in which two tables of requests differ; empty where they are the same requests."""
    if len(a["request_id"]) != len(b["request_id"]):
        return f"{len(a['request_id']):,} and {len(b['request_id']):,} requests"
    for name in SAME if loose else (*SAME, "arrival_s"):
        unlike = a[name] != b[name]
        if name == "arrival_s":
            unlike &= ~(np.isnan(a[name]) & np.isnan(b[name]))
        if unlike.any():
            row = int(np.flatnonzero(unlike)[0])
            who = f"request {a['request_id'][row]}" if name != "request_id" else f"row {row + 1}"
            return f"{name} of {int(unlike.sum()):,} requests, first of {who}: {a[name][row]} and {b[name][row]}"
    return ""


def _note_seeds(scene: Scene) -> None:
    for variant in scene.variants:
        more = sorted(set(variant.runs) - set(scene.seeds))
        if more:
            scene.notes.append(f"{variant.label}: {SEED} {', '.join(map(str, more))} left out, others have none")


def _name(scene: Scene) -> None:
    """What all its variants have in common is the scene's, the rest tells them apart."""
    first = scene.variants[0].settings
    shared = {
        name: value for name, value in first.items() if all(each.settings.get(name) == value for each in scene.variants)
    }
    if len(scene.variants) == 1:
        shared = {name: value for name, value in first.items() if name.startswith("trace")} or shared
    scene.name = setting_words(shared)
    own = [
        setting_words({name: value for name, value in variant.settings.items() if name not in shared})
        for variant in scene.variants
    ]
    where = [variant.path.parent.name for variant in scene.variants]  # of several sweeps
    both = [f"{place}: {label}" if label else place for place, label in zip(where, own, strict=True)]
    labels = next((each for each in (own, both) if all(each) and len(set(each)) == len(each)), scene.labels())
    for variant, label in zip(scene.variants, labels, strict=True):
        variant.label = label


def _listed(variant: Variant) -> str:
    return ", ".join(str(seed) for seed in sorted(variant.runs))
