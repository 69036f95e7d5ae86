"""What can go wrong with a policy, told in one line."""


class PolicyError(Exception):
    """A policy raised, returned an illegal plan, or stalled; the message names policy, step, rule and state.

    `record`, where a driver sets it, holds what was done until then.
    """

    record: object = None


class IllegalPlan(PolicyError):
    """A plan broke a rule of the core."""


class InvalidTransition(PolicyError):
    """A request was moved from a state from which that move does not exist (a second preemption, say)."""


class Stall(PolicyError):
    """Something waits, nothing runs and no event is due; or all that runs is preempted again before it yields a token."""


class DeviceError(RuntimeError):
    """What computes the steps is broken, in one line: the run ends, with what was done until then."""


class DoubleFree(AssertionError):
    """A block was released that nobody holds: a defect of the core or of code that drives the pool by hand."""
