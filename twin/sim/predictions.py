"""What stands between a trace, which knows every length, and the predictor of a run.

A predictor that works on true lengths gets them here; any other is told of a length when its request has finished, never
before. A request is predicted when the scheduler takes it in, so that what a predictor has learnt by then is the same step
by step and in stretches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twin.core.request import FINISHED, Request
from twin.policy import RequestView
from twin.predictor import Predictor, as_tokens
from twin.sim.arrivals import Workload
from twin.sim.recorder import RequestTable

MOST_OF_A_MESSAGE = 300  # characters of a predictor's own error


class PredictorError(ValueError):
    """A predictor raised, gave what is no prediction, or none where a policy needs one; one line."""


class Open(NamedTuple):
    """A request whose end the predictor will be told of."""

    request: RequestView
    samples: int


class Predictions:
    """The predictions of a run. `needed_by` are the words for whoever cannot do without one."""

    def __init__(
        self, predictor: Predictor, trace: Workload, max_model_len: int, table: RequestTable, needed_by: str | None
    ) -> None:
        self.predictor, self.table, self.needed_by = predictor, table, needed_by
        self.max_model_len = max_model_len
        self.name = f"predictor {type(predictor).__name__}"
        self.all: list[float | None] | None = None  # by row of the trace, where they are known beforehand
        self.open: dict[int, Open] = {}
        if predictor.needs_length:
            self.all = self._beforehand(trace.ids(), true_lengths(trace, max_model_len))

    def _beforehand(self, ids: list[str], lengths: list[int]) -> list[float | None] | None:
        try:
            self.predictor.prepare(lengths)
            given = self.predictor.predict_all(ids, lengths)
            given = None if given is None else list(given)
        except Exception as error:  # a predictor is somebody else's code
            raise self._raised(error) from error
        if given is None:
            return None
        if len(given) != len(lengths):
            raise PredictorError(f"{self.name}: predict_all gave {len(given)} predictions for {len(lengths)} requests")
        return [self._checked(value, name) for value, name in zip(given, ids, strict=True)]

    def give(self, request: Request) -> None:
        """The scheduler is about to take it in: its prediction."""
        if self.all is not None:
            request.predicted_output = self.all[request.index]
        else:
            length = max(1, min(request.stop_after, self.max_model_len - request.prompt_tokens))
            try:
                given = self.predictor.predict(request.view, length if self.predictor.needs_length else None)
            except Exception as error:  # likewise
                raise self._raised(error, f", request {request.id}") from error
            request.predicted_output = self._checked(given, request.id)
        if self.predictor.on_finish is not None:
            self.open[request.index] = Open(request.view, request.samples)

    def ended(self, row: int) -> None:
        """All samples of the request of that row have come to their end."""
        request, samples = self.open.pop(row, (None, 1))
        if request is None or self.predictor.on_finish is None or self.table.status[row] != FINISHED:
            return
        generated = self.table.generated_tokens[row]
        try:
            self.predictor.on_finish(request, generated if samples == 1 else generated / samples)
        except Exception as error:  # likewise
            raise self._raised(error, f", end of request {request.id}") from error

    def _checked(self, given: Any, name: str) -> float | None:
        try:
            tokens = as_tokens(given)
        except ValueError as error:
            raise PredictorError(f"{self.name}, request {name}: {error}") from error
        if tokens is None and self.needed_by is not None:
            raise PredictorError(f"{self.name} gives request {name} no prediction, and {self.needed_by} needs one")
        return tokens

    def _raised(self, error: Exception, when: str = "") -> PredictorError:
        """What the predictor's own code raised, in one line, with the last place in its file."""
        members = [member for kind in type(self.predictor).__mro__[:-2] for member in vars(kind).values()]
        codes = [getattr(member, "__code__", None) for member in members]
        files = {code.co_filename for code in codes if code is not None}
        place, step = "", error.__traceback__
        while step is not None:
            if (filename := step.tb_frame.f_code.co_filename) in files:
                place = f"{Path(filename).name}:{step.tb_lineno} "
            step = step.tb_next
        message = " ".join(str(error).split())[:MOST_OF_A_MESSAGE]
        said = f": {message}" if message else ""
        return PredictorError(f"{self.name}{when}: {place}raised {type(error).__name__}{said}")


def telling(predictions: Predictions | None, after: Callable[[int, float], None]) -> Callable[[int, float], None]:
    """`after(row, now_s)`, of which the predictor is told first, if it listens."""
    if predictions is None or predictions.predictor.on_finish is None:
        return after
    ended = predictions.ended

    def told(row: int, now_s: float) -> None:
        ended(row)
        after(row, now_s)

    return told


def true_lengths(trace: Workload, max_model_len: int) -> list[int]:
    """Tokens that each request puts out if it comes to its end: asked for, within its own limit and the model's."""
    lengths = np.asarray(trace.output_tokens)
    if trace.max_tokens is not None:
        lengths = np.where(trace.max_tokens < 0, lengths, np.minimum(lengths, trace.max_tokens))
    tokens: list[int] = np.maximum(1, np.minimum(lengths, max_model_len - trace.prompt_tokens)).tolist()
    return tokens
