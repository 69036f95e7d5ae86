"""All policies, each looked at by itself: one that is broken is an entry that says why, and no harm to the others."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.nearest import nearest
from twin.policies_registry import PolicyFile, load
from twin.policy import Policy
from twin.policy_parameters import PolicyFileError
from twin.policy_sources import Source, files_in, misnamed, names, source

SYSTEMS, ORDER, FAIRNESS, PREFIX = "systems", "order of service", "fairness between users", "shared prefixes"
ADMISSION = "parts: admission (policy.admission=NAME)"
VICTIM = "parts: who gives way (policy.victim=NAME)"
MODE = "parts: recompute, swap or keep (policy.preemption_mode=NAME)"
PAUSE = "parts: while a tool runs (policy.pause=NAME)"
FAMILIES = {  # of the shipped ones; what is not here goes where its hooks say
    SYSTEMS: ("fcfs", "prefill_first", "sarathi", "orca", "static"),
    ORDER: (
        "priority", "sjf", "srpt", "ssjf", "ltr", "trail", "las", "ps", "hrrn", "lof", "mlfq", "edf", "slack", "andes",
    ),
    FAIRNESS: ("vtc", "lcf", "drr", "wfq", "dlpm", "rpm"),
    PREFIX: ("lpm", "dfs_weight"),
    ADMISSION: ("watermark", "no_evict", "max_util", "past_future", "reserve_ratio"),
    VICTIM: (),
    MODE: (),
    PAUSE: ("infercept",),
}  # fmt: skip
HOOKS = {  # what a policy decides, in a word, by the hook
    "schedule": "whole step",
    "order": "order",
    "pick": "order",
    "admit": "admission",
    "chunk": "chunk",
    "victim": "victim",
    "mode": "mode",
    "pause": "pause",
    "background": "background swaps",
    "reserve": "reservation",
}
BY_DECISION: dict[tuple[str, ...], str] = {
    ("admission",): ADMISSION,
    ("victim",): VICTIM,
    ("mode",): MODE,
    ("mode", "background swaps"): MODE,
    ("pause",): PAUSE,
}


@dataclass(frozen=True)
class Entry:
    """A policy in the list; `error` says why it cannot be used, and `found` is then None."""

    name: str
    family: str
    place: str  # its file, or the entry point
    found: PolicyFile | None = None
    decides: tuple[str, ...] = ()
    needs_prediction: bool = False
    checked: bool = False  # it has a certificate for its present hash
    error: str = ""

    @property
    def description(self) -> str:
        """Its docstring, without the indentation."""
        return inspect.cleandoc((self.found.policy.__doc__ if self.found else "") or "")

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.description.partition("\n")[0]

    @property
    def parameters(self) -> list[tuple[str, str, str]]:
        """Name, type and default of each; the default is "" where one must be given."""
        listed = self.found.parameters if self.found else ()
        return [(one.name, one.type_text, "" if one.required else _shown(one.default)) for one in listed]


def entries(policy_path: str | Path | None = None) -> list[Entry]:
    """All there are, family by family; a user's own last."""
    found = [entry_of(name, policy_path) for name in names(policy_path)]
    for file in files_in(policy_path):
        if not file.stem.isidentifier():
            found.append(Entry(file.stem, f"in {file.parent}", str(file), error=f"{file}: {misnamed(file)}"))
    order = {family: place for place, family in enumerate(FAMILIES)}
    listed = {name: place for place, name in enumerate(name for family in FAMILIES.values() for name in family)}
    return sorted(found, key=lambda one: (order.get(one.family, 99), one.family, listed.get(one.name, 99), one.name))


def entry_of(name: str, policy_path: str | Path | None = None) -> Entry:
    """One policy; whatever is wrong with it is told in the entry."""
    from twin.check.certificate import certificate_for  # with all that a check needs

    family = where = ""
    try:
        place = source(name, policy_path)
        where = str(place)
        family = _place(place)
        found = load(place)
        policy = _sample(found)
    except PolicyFileError as error:
        return Entry(name, family or "nowhere to be had", where, error=str(error))
    decides = tuple(dict.fromkeys(word for hook, word in HOOKS.items() if getattr(policy, hook) is not None))
    if place.built_in and not any(name in members for members in FAMILIES.values()):
        family = BY_DECISION.get(decides, ORDER)
    if policy.preempts:
        decides = tuple("preemptive order" if word == "order" else word for word in decides)
    checked = certificate_for(found.file) is not None
    return Entry(name, family, where, found, decides, policy.needs_prediction, checked)


def unknown(name: str, policy_path: str | Path | None = None) -> str:
    """What to say of a name that nobody has."""
    return f"{name}: no such policy{nearest(name, names(policy_path))}; python -m twin policy list shows all"


def _sample(found: PolicyFile) -> "Policy | type[Policy]":
    """The policy with its defaults: hooks may be set in the constructor. The class where something must be given."""
    if any(parameter.required for parameter in found.parameters):
        return found.policy
    return found.build({})[0]


def _place(place: Source) -> str:
    if place.file is None:
        return "in installed packages"
    if not place.built_in:
        return f"in {place.file.parent}"
    return next((family for family, members in FAMILIES.items() if place.name in members), ORDER)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "null" if value is None else '""'
    return str(value).lower() if isinstance(value, bool) else str(value)
