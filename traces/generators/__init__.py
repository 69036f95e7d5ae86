"""Traces that are made, not read. One module a generator, whose name is the trace's, with

`generate(num_requests, seed, rate, **options) -> Trace`: `rate` is the mean rate wanted in requests/s, or None for
the generator's own; the options are keyword-only. The first requests of a longer trace are those of a shorter one.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType

NAMES = ("chat", "code", "agent", "summarize", "batch", "long_context", "servegen", "synthetic")


class Generators(Mapping[str, ModuleType]):
    """The modules by name, each imported when it is asked for: a run needs one of them."""

    def __getitem__(self, name: str) -> ModuleType:
        if name not in NAMES:
            raise KeyError(name)
        return import_module(f"{__name__}.{name}")

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


GENERATORS = Generators()
