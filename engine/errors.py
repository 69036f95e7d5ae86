"""What can go wrong in the engine, in words for its user."""


class EngineError(ValueError):
    """A mistake of the user's, or a machine that cannot do what was asked: one line that says what would be right."""


class StepFailure(RuntimeError):
    """One step could not be computed (out of memory, say): its requests fail with this reason, the engine goes on."""
