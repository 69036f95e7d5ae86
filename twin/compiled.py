"""The compiled core: the modules of the simulator's loop, translated to C by mypyc and used in place of their sources.

`python -m twin compile` makes them, into a folder of the user's cache that is named by a hash of the sources. They are used
as long as the sources are what they were made from, and whoever changes a line of the core runs that line at once, at the
speed of Python. Both give the same results; $TWIN_COMPILED=0 goes without.
"""

import hashlib
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path

CORE = (
    "admission", "batch", "beams", "block_pool", "by_plan", "contiguous", "decoders", "fork", "free_queue", "landing",
    "pauses", "preemptive", "prefix_cache", "request", "reservation", "restart", "scheduler", "standing", "start", "state",
    "step", "stretch", "swap", "vacate",
)  # fmt: skip
SIM = ("arrivals", "device", "events", "recorder", "replica", "step_table")
MODULES = (*(f"twin.core.{name}" for name in CORE), *(f"twin.sim.{name}" for name in SIM), "twin.latency.adding_up")
ROOT = Path(__file__).resolve().parents[1]
SUFFIX = EXTENSION_SUFFIXES[0]


class Finder:
    """Finds the compiled modules, and the library that holds the code of them all. A finder for `sys.meta_path`."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.files.get(name)
        if file is None:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


def source_of(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def user_cache() -> Path:
    """The project's folder in the user's cache ($XDG_CACHE_HOME, by default ~/.cache), for all that is compiled here."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "twin-serving"


def folder() -> Path:
    """Where the compiled forms of several states of the sources lie."""
    return user_cache() / "compiled"


def key() -> str:
    """Of the sources as they are, and of this Python."""
    digest = hashlib.sha256(SUFFIX.encode())
    for module in MODULES:
        digest.update(source_of(module).read_bytes())
    return digest.hexdigest()[:24]


def in_use() -> bool:
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def use() -> None:
    """Take the compiled modules from now on, if those of these sources are there."""
    if os.environ.get("TWIN_COMPILED") == "0" or in_use():
        return
    place = folder()
    if not place.is_dir() or not is_own(place):
        return
    place /= key()
    if place.is_dir():
        libraries = {file.name.removesuffix(SUFFIX): str(file) for file in place.glob(f"*{SUFFIX}")}
        sys.meta_path.insert(0, Finder(libraries))


def is_own(place: Path) -> bool:
    """Nobody but the user can write there: what lies there is run."""
    about = place.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022
