"""What a policy's own code raises inside vLLM, told in one line that names the policy, the plan, file and line."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from twin.core.errors import PolicyError
from twin.policy_code import said

if TYPE_CHECKING:
    from engine.vllm._options import Twin
    from engine.vllm._state import State


class Told(PolicyError):
    """The message names the policy and the plan already."""


class Boundary:
    """Around what vLLM does: errors of the policy leave it as `Told`, all others as they are."""

    def __init__(self, twin: Twin, state: State) -> None:
        self.twin, self.state = twin, state

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None or isinstance(error, Told):
            return
        if isinstance(error, PolicyError):
            raise Told(f"{self._where()}: {error}") from error
        place = self._place(traceback) if isinstance(error, Exception) else None
        if place is not None:
            text = said(error)
            raise Told(f"{self._where()}: {place} raised {type(error).__name__}{text and f': {text}'}") from error

    def _where(self) -> str:
        """It runs no code of the policy's, which may be what has failed."""
        state = self.state
        counts = f"{len(state.running)} running, {len(state.waiting)} waiting, {state.pool.num_free} blocks free"
        return f"policy {self.twin.name}, plan {state.plans} ({counts})"

    def _place(self, traceback: TracebackType | None) -> str | None:
        """FILE:LINE, the last in a file of the policy's that the error passed."""
        place = None
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if file in self.twin.files:
                place = f"{Path(file).name}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        return place
