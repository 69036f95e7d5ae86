"""The policy's source, read without running it: clock, chance without a seed, and the inside of the views."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twin.check.forbidden import words_for
from twin.check.result import Result, Tell
from twin.check.subject import Subject

INSIDE = ("_request", "_state", "_step")  # of the views and of the plan: behind them are live objects and true lengths
FOREIGN = ("twin.core", "twin.sim", "twin.results", "twin.cli", "engine", "gc", "ctypes")
TRICKS = ("sys._getframe", "inspect.stack", "inspect.currentframe", "object.__setattr__", "object.__getattribute__")
LIVE = "a policy sees requests and system through the views alone; behind {} are live objects of the core and true lengths"


def check(subject: Subject, quick: bool, tell: Tell) -> Result:
    """What the files of the policy say that they may not."""
    result = Result("source", cases=len(subject.files))
    for file in sorted(subject.files):
        tell(Path(file).name)
        for line, words in sorted(set(complaints(Path(file).read_text(encoding="utf-8")))):
            result.fail(f"{Path(file).name}:{line}: {words}")
    return result


def complaints(text: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of a source text."""
    tree = ast.parse(text)
    known = dict(_imports(tree))
    called_with = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and (node.args or node.keywords)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, words) for words in _foreign(node))
        elif isinstance(node, ast.Constant) and node.value in INSIDE:
            yield node.lineno, f"reaches for {node.value!r}: {LIVE.format(node.value)}"
        elif isinstance(node, ast.Attribute) and node.attr in INSIDE and not _is_self(node.value):
            yield node.lineno, f"reaches into a view, .{node.attr}: {LIVE.format(node.attr)}"
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            name = _dotted(node, known)
            if name in TRICKS:
                yield node.lineno, f"uses {name}: {LIVE.format('it')}"
            elif name is not None and (words := words_for(name, id(node) in called_with or id(node) not in called)):
                yield node.lineno, words


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name in this file, dotted name of what it is)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
    yield "object", "object"


def _foreign(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
    if isinstance(node, ast.ImportFrom):
        names += [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        if any(name == foreign or name.startswith(f"{foreign}.") for foreign in FOREIGN):
            yield f"imports {name}: of the project a policy imports twin.policy alone, and nothing that finds live objects"
            return


def _dotted(node: ast.expr, known: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (inner := _dotted(node.value, known)) is not None:
        return f"{inner}.{node.attr}"
    return None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
