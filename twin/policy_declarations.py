"""Hooks and declarations of a policy, checked before anything is simulated."""

import inspect
from difflib import get_close_matches
from typing import Any

from twin.policy import Policy
from twin.policy_code import said
from twin.policy_parameters import PolicyFileError

HOOKS = {  # with what each is called
    **{name: "request, view" for name in ("order", "admit", "mode", "pause", "reserve")},
    **{f"on_{event}": "request, view" for event in ("arrival", "wait", "admit", "pause", "resume", "finish")},
    **{name: "view" for name in ("pick", "background", "on_plan", "steady_steps", "steady_until", "schedule")},
    "chunk": "request, offered, view",
    "victim": "running, view",
    "key_steps": "request, key, view",
    "on_preempt": "request, mode, view",
    "on_step": "view, batch, k",
}
SWITCHES = ("steady", "dynamic", "preempts", "needs_prediction")
# What a request is and stays. Of its attributes only these can be a group: the others change while it waits.
GROUPS = ("user", "session", "priority", "id", "arrival_s", "prompt_tokens", "deadline_s", "predicted_output")
ALLOCATORS = ("paged", "contiguous")
ALIKE = 0.8  # share of letters by which a name is taken for a slip of the pen


def check_declarations(policy: Policy, where: str) -> None:
    """Raises `PolicyFileError` for a hook or declaration that is none; `where` is the class's file and line."""
    named = f"{where}: {type(policy).__name__}"
    for name, arguments in HOOKS.items():
        hook = getattr(policy, name)
        if hook is not None and not callable(hook):
            raise PolicyFileError(f"{named}.{name}={_shown(hook)}: must be a method {name}(self, {arguments}), or None")
        if hook is not None and not takes(hook, arguments.count(",") + 1):
            place = _at(where, hook, policy)
            raise PolicyFileError(f"{place}.{name}: takes other arguments; it is called as {name}({arguments})")
    for name in SWITCHES:
        if type(value := getattr(policy, name)) is not bool:
            raise PolicyFileError(f"{named}.{name}={_shown(value)}: must be True or False")
    for name, allowed in (("group", (*GROUPS, None)), ("allocator", ALLOCATORS)):
        if (value := getattr(policy, name)) is not None and type(value) is not str or value not in allowed:
            words = ", ".join(map(str, allowed))
            raise PolicyFileError(f"{named}.{name}={_shown(value)}: must be one of {words}")
    for kind in type(policy).__mro__[:-2]:
        for name, value in vars(kind).items():
            if not name.startswith("_") and (meant := _meant(name, value, policy)):
                place = _at(where, value, policy)
                own = f"if it is your own, call it _{name}"
                raise PolicyFileError(f"{place}.{name}: no such hook or declaration; did you mean {meant}? ({own})")


def _at(where: str, value: object, policy: Policy) -> str:
    """The class, with the line of a method of its own file rather than that of the class."""
    file = where.rpartition(":")[0]
    code = getattr(value, "__code__", None)
    place = f"{file}:{code.co_firstlineno}" if code and code.co_filename == file else where
    return f"{place}: {type(policy).__name__}"


def _meant(name: str, value: object, policy: Policy) -> str | None:
    """The hook or switch that a misspelt one was meant to be: it would be left alone without a word."""
    if hasattr(Policy, name):
        return None
    if callable(value):
        unused = [hook for hook in HOOKS if getattr(policy, hook) is None]
        alike = get_close_matches(name, unused, 1, ALIKE)
        return next(iter(alike), None) if alike and takes(value, HOOKS[alike[0]].count(",") + 2) else None
    return next(iter(get_close_matches(name, SWITCHES, 1, ALIKE)), None) if type(value) is bool else None


def takes(hook: Any, count: int) -> bool:
    """Whether it can be called with so many arguments."""
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):  # a built-in function without one: its call will show
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _shown(value: object) -> str:
    return said(repr(value) if isinstance(value, str) else value)
