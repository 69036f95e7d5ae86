"""vLLM's scheduler with a policy of ours in it: a class for `--scheduler-cls`.

What a policy decides, and where vLLM is asked for it:

    order, pick, group, dynamic   `self.waiting` is a queue in the policy's order                         _queue.py
    admit                         _handle_blocked_waiting_request: vLLM's question whether a head may come in
    chunk                         _reserve_prefill_lookahead: vLLM's question how many tokens it gets
    victim                        when blocks are missing the chosen one gets the lowest priority, and vLLM takes it off
    preempts                      two questions in the text of vLLM's `schedule`                          _preemptive.py
    on_...                        around add_request, schedule, update_from_output, _preempt_request, _free_request

A policy that decides nothing (`fcfs`) changes nothing: vLLM's queue and code stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from time import time
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from engine.vllm._carrier import Carrier
from engine.vllm._internals import check_class
from engine.vllm._options import POLICY_PATH, chosen
from twin.policy_parameters import PolicyFileError
from twin.policy_sources import source


class TwinScheduler(Scheduler):
    """vLLM's scheduler with the policy of `additional_config={"twin": {"policy": NAME, ...}}`, or $TWIN_POLICY.

    Where vLLM schedules asynchronously an `AsyncTwinScheduler` is made.
    """

    twin_policy: str | None = None  # of the classes engine.vllm.NAME

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls
        if vllm_config.scheduler_config.async_scheduling and not issubclass(cls, AsyncScheduler):
            made = _asynchronous(made)
        return super().__new__(made)

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        self.twin_carrier: Carrier | None = None
        check_class(Scheduler)
        twin = chosen(vllm_config, self.twin_policy)
        super().__init__(vllm_config, *args, **kwargs)
        if twin is not None:
            self.twin_carrier = Carrier.of(self, twin)

    @property
    def clock(self) -> Callable[[], float]:
        """What `view.now` goes by, in seconds: that of the requests' arrivals."""
        return time if self.twin_carrier is None else self.twin_carrier.state.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        if self.twin_carrier is not None:
            self.twin_carrier.state.clock = clock

    @property
    def admitted(self) -> list[str] | None:
        """Who has come in with the last plan, in order, whether it is there still or not; None: there is no policy."""
        return None if self.twin_carrier is None else list(self.twin_carrier.admitted)

    # --- what vLLM's engine calls

    def add_request(self, request: Any) -> None:
        if self.twin_carrier is None:
            return super().add_request(request)
        with self.twin_carrier.errors:
            self.twin_carrier.arrivals.arrives(request)
            super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        carrier = self.twin_carrier
        if carrier is None:
            return super().schedule(*args, **kwargs)
        with carrier.errors, carrier.step():
            if carrier.schedule is not None:
                return carrier.schedule(self, *args, **kwargs)
            return super().schedule(*args, **kwargs)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        carrier = self.twin_carrier
        if carrier is None:
            return super().update_from_output(scheduler_output, model_runner_output)
        with carrier.errors, carrier.landing.of(scheduler_output):
            return super().update_from_output(scheduler_output, model_runner_output)

    def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
        if self.twin_carrier is None:
            return super().finish_requests(*args, **kwargs)
        with self.twin_carrier.errors:
            return super().finish_requests(*args, **kwargs)

    # --- what vLLM's scheduler calls

    def _handle_blocked_waiting_request(self, request: Any) -> bool:
        ready: bool = super()._handle_blocked_waiting_request(request)
        if self.twin_carrier is None or not ready:
            return ready
        return self.twin_carrier.may_come_in(request)

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        if self.twin_carrier is not None:
            self.twin_carrier.gives_back(request)
        super()._preempt_request(request, *args, **kwargs)
        if self.twin_carrier is not None:
            self.twin_carrier.preempted(request)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        freed = super()._free_request(request, *args, **kwargs)
        if self.twin_carrier is not None:
            self.twin_carrier.landing.ended(request)
        return freed

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        if self.twin_carrier is not None:
            self.twin_carrier.has_come_in()
            self.twin_carrier.ask_for_head()
        super()._update_after_schedule(scheduler_output)
        if self.twin_carrier is not None:
            self.twin_carrier.landing.launched(scheduler_output)


class AsyncTwinScheduler(TwinScheduler, AsyncScheduler):
    """The same, on vLLM's asynchronous scheduler."""


@cache
def _asynchronous(scheduler_class: Any) -> Any:
    if scheduler_class is TwinScheduler:
        return AsyncTwinScheduler
    name, about = f"Async{scheduler_class.__name__}", {"__doc__": scheduler_class.__doc__, "__module__": __name__}
    return type(name, (scheduler_class, AsyncScheduler), about)


@cache
def class_of(name: str) -> Any:
    """The class that runs the policy of this name. Raises AttributeError, in words, if there is no such policy."""
    try:
        source(name, os.environ.get(POLICY_PATH))
    except PolicyFileError as error:
        raise AttributeError(f"engine.vllm.{name}: {error}") from error
    about = {"twin_policy": name, "__doc__": f"vLLM's scheduler with the policy {name}.", "__module__": __name__}
    return type(name, (TwinScheduler,), about)
