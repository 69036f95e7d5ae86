"""The names of a sweep's folders: what is swept there, so that a sweep that grows finds its jobs again."""

import hashlib
import re
from collections.abc import Mapping, Sequence

ODD = re.compile(r"[^\w.,=()+:%@-]+", re.ASCII)
LONGEST = 120  # letters of a folder's name: file systems take 255 bytes


def folder_names(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """A name for each point of a grid: `policy=fcfs,trace.rate=2`; all different, none longer than file systems like.

    What a file system might not take is left out, and a hash of the whole put behind it.
    """
    return [_name(each) for each in settings]


def _name(settings: Mapping[str, str]) -> str:
    told = ",".join(f"{option}={value}" for option, value in settings.items()) or "all"
    name = ODD.sub("_", told)
    if name == told and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
