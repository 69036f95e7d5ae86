"""While a policy is watched, a call of the clock or of chance without a seed from its own code raises `Forbidden`.

The functions are replaced in their modules before the policy is imported, so that `from time import perf_counter` gets the
replacement too. Whoever else calls them notices nothing. The classes of `datetime` are built into extension modules (that
of pandas does not survive another one), so that module stays as it is, and who is watched imports a copy of it.
"""

from __future__ import annotations

import builtins
import datetime
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from twin.check.forbidden import CHANCES, CLOCKS, COPIES, words_for


class Forbidden(Exception):
    """The policy's code asked for what it may not know."""


class Watch:
    """Remembers what was asked for, even where the policy swallowed the exception."""

    def __init__(self, folders: set[str]) -> None:
        self.folders = folders  # code in one of these is the policy's
        self.seen: list[str] = []

    def _refuse(self, name: str) -> None:
        frame = sys._getframe(2)
        file = Path(frame.f_code.co_filename)
        if str(file.parent) in self.folders:
            what, _, why = str(words_for(name)).partition("; ")
            message = f"it {what}() at {file.name}:{frame.f_lineno}; {why}"
            self.seen.append(message)
            raise Forbidden(message)

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            self._refuse(name)
            return original(*arguments, **named)

        return watched

    @contextmanager
    def on(self) -> Iterator[Watch]:
        """As long as it lasts."""
        kept = [(where, name, getattr(where, name)) for where, name, _ in self._replacements()]
        for where, name, replacement in self._replacements():
            setattr(where, name, replacement)
        try:
            yield self
        finally:
            for where, name, original in kept:
                setattr(where, name, original)

    def _replacements(self) -> list[tuple[Any, str, Any]]:
        functions = []
        for module_name, names in (*CLOCKS.items(), *CHANCES.items(), *COPIES.items()):
            if "." in module_name:
                continue  # classes, below; and numpy, of which the reading of the source is enough
            module = importlib.import_module(module_name)
            for name in names:
                original = getattr(module, name, None)
                if original is not None and not isinstance(original, type):
                    functions.append((module, name, self._watched(f"{module_name}.{name}", original)))
        return [*functions, (random, "Random", self._random()), (builtins, "__import__", self._import())]

    def _import(self) -> Callable[..., Any]:
        usual, copy = builtins.__import__, ModuleType("datetime")
        vars(copy).update(vars(datetime), datetime=self._datetime(), date=self._date())

        def watched_import(name: str, globals: Any = None, *rest: Any, **more: Any) -> Any:
            module = usual(name, globals, *rest, **more)
            own = module is datetime and str(Path((globals or {}).get("__file__") or "").parent) in self.folders
            return copy if own else module

        return watched_import

    def _datetime(self) -> type:
        watch = self

        class WatchedDatetime(datetime.datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                watch._refuse("datetime.datetime.now")
                return super().now(tz)

            @classmethod
            def utcnow(cls) -> Any:
                watch._refuse("datetime.datetime.utcnow")
                return super().utcnow()

        return WatchedDatetime

    def _date(self) -> type:
        watch = self

        class WatchedDate(datetime.date):
            @classmethod
            def today(cls) -> Any:
                watch._refuse("datetime.date.today")
                return super().today()

        return WatchedDate

    def _random(self) -> type:
        watch = self

        class WatchedRandom(random.Random):
            def __init__(self, seed: Any = None) -> None:
                if seed is None:
                    watch._refuse("random.Random")
                super().__init__(seed)

        return WatchedRandom
