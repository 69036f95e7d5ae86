"""Requests on their way into vLLM's queue: what they bring, their prediction, and why one is refused."""

from __future__ import annotations

from typing import Any

from vllm.logger import init_logger

from engine.vllm._internals import check_request
from engine.vllm._options import Twin
from engine.vllm._queue import REFUSED
from engine.vllm._request import PREDICTED, Record
from engine.vllm._state import State
from twin.core.errors import PolicyError
from twin.predictor import as_tokens

logger = init_logger("vllm.twin")


class Arrivals:
    """The door of one scheduler of vLLM's."""

    def __init__(self, scheduler: Any, twin: Twin, state: State) -> None:
        self.scheduler, self.twin, self.state = scheduler, twin, state
        self.checked = False

    def arrives(self, request: Any) -> None:
        """vLLM is about to take it in."""
        if not self.checked:
            check_request(request)
            self.checked = True
        reason = None
        try:
            record = Record(request, self.state)
        except ValueError as error:
            reason = str(error)
            sampling, request.sampling_params = request.sampling_params, None  # its extra arguments cannot be read
            record = Record(request, self.state)
            request.sampling_params = sampling
        request.twin_record = record
        request.priority = 0  # what it counts for is the policy's affair: see `_name_victim`
        self.state.now = max(self.state.now, record.arrival_s)
        reason = reason or self._predict(record) or self._cannot(request)
        if reason is not None:
            record.place = REFUSED
            self.fail(request, reason)
            logger.warning("request %s is refused: %s", record.id, reason)

    def _cannot(self, request: Any) -> str | None:
        if request.resumable:
            return "streaming input keeps blocks while it waits, which no policy here knows of"
        if request.sampling_params is None:
            return "it is a request of a pooling model"
        return None

    def _predict(self, record: Record) -> str | None:
        """Its prediction, if it brings none itself; why it is refused, if it needs one."""
        predictor = self.twin.predictor
        if record.predicted_output is None and predictor is not None:
            try:
                record.predicted_output = as_tokens(predictor.predict(record.view, None))
            except ValueError as error:
                raise PolicyError(f"predictor {type(predictor).__name__}: {error}") from error
        if record.predicted_output is None and self.twin.policy.needs_prediction:
            return (
                f"policy {self.twin.name} needs a prediction of its output: extra argument {PREDICTED} (in requests to the "
                f"server: vllm_xargs), or a predictor for all that bring none"
            )
        return None

    def fail(self, request: Any, reason: str) -> None:
        """vLLM ends it with an error when the next step has been counted, as it does where a grammar cannot be compiled."""
        failed = self.scheduler.grammar_compile_error_reqs
        if isinstance(failed, set):
            failed.add(request.request_id)
            return
        from vllm.outputs import RequestError

        failed[request.request_id] = RequestError(code="validation_error", message=reason)
