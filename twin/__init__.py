"""A laboratory for LLM-serving scheduling: a simulator and a real engine that share one scheduler and its policies.

In a notebook or script: `twin.run(policy="fcfs", trace="chat", rate=4)` (docs/notebook.md).
"""

from typing import TYPE_CHECKING, Any

from twin import compiled

if TYPE_CHECKING:
    from twin.cli.errors import UserError
    from twin.core.errors import PolicyError
    from twin.notebook import Run, Runs, load, run
    from twin.policy import ADMIT, LATER, NEVER, Policy

__all__ = ["ADMIT", "LATER", "NEVER", "Policy", "PolicyError", "Run", "Runs", "UserError", "load", "run"]
__version__ = "0.1.0"

_HOMES = {  # where each name is from; imported when it is first asked for
    **dict.fromkeys(("run", "load", "Run", "Runs"), "twin.notebook"),
    **dict.fromkeys(("Policy", "ADMIT", "LATER", "NEVER"), "twin.policy"),
    "PolicyError": "twin.core.errors",
    "UserError": "twin.cli.errors",
}

compiled.use()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'twin' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
