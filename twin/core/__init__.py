"""The scheduling core, shared by the simulator and the engine.

Start with scheduler.py, then step.py and admission.py (what a step is), then decoders.py (why it is fast).
"""

from twin.core.batch import Batch, Features
from twin.core.errors import IllegalPlan, InvalidTransition, PolicyError, Stall
from twin.core.limits import Limits, Rules
from twin.core.request import Request
from twin.core.scheduler import Scheduler

__all__ = [
    "Batch", "Features", "IllegalPlan", "InvalidTransition", "Limits", "PolicyError", "Request", "Rules", "Scheduler",
    "Stall",
]  # fmt: skip
