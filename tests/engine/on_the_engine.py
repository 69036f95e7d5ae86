"""A pytest plugin: the scenarios and hand-driven schedulers of other tests are computed by a real model, too.

`play` and `Drive` are what those tests go through. Here each batch is also launched on a tiny transformer whose cache is NaN
wherever nothing was written, and its tokens come back: so a decision that the engine cannot carry out, a block read that is
not its reader's, or a token too many or too few fails the test that made it.
"""

import os
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.contents import scenario_contents, tokens_of
from engine.device import device_for
from engine.executor import Executor
from engine.sampling.params import SamplingParams
from engine.tiny import TINY, tiny_runner
from tests.core.drive import Drive
from twin.core import Request
from twin.core.batch import Batch
from twin.core.request import FINISHED
from twin.policy import Policy
from twin.predictor import Predictor
from twin.sim import scenario as scenarios
from twin.sim.scenario_file import Scenario

COUNTS = {"scenarios": 0, "steps": 0, "sequences": 0}
COUNTS_FILE = "ON_THE_ENGINE_COUNTS"  # environment: where to write them
simulated_play = scenarios.play


def play(
    scenario: Scenario, policy: Policy, literal: bool = False, predictor: Predictor | None = None, device: Any = None
) -> Iterator[dict[str, Any]]:
    """As `twin.sim.scenario.play`, computed."""
    ended: dict[str, int] = {}
    rows = scenarios.ScenarioTrace(scenario).rows
    executor = Executor(
        tiny_runner(scenario.limits), scenario_contents(rows, TINY.vocab), overlap=scenario.rules.async_scheduling,
        on_end=lambda request, sequence, search: ended.update({request.id: len(sequence.generated) - sequence.returned}),
    )  # fmt: skip
    try:
        for line in simulated_play(scenario, policy, literal, predictor, device_for(executor, None)):
            if "summary" in line:
                _check_ends(line["summary"]["requests"], ended)
            elif line["scheduled"]:
                assert line.pop("measured_s") > 0
                COUNTS["steps"] += 1
            else:
                line.pop("measured_s")
            yield line
    finally:
        executor.close()
    COUNTS["scenarios"] += 1
    assert not executor.in_flight and not executor.inputs.tables._row


def _check_ends(requests: dict[str, Any], ended: dict[str, int]) -> None:
    for name, request in requests.items():
        if request["status"] == FINISHED:
            assert request["reason"] == "length"
            assert ended[name] == len(request["token_times_s"]), f"tokens of {name}"
            COUNTS["sequences"] += 1


class DriveContents:
    """Prompts of hand-made requests: blocks with equal keys are equal."""

    def __init__(self, block_size: int) -> None:
        self.block_size, self.requests = block_size, []  # type: int, list[Request]

    def prompt(self, row: int) -> list[int]:
        request, size = self.requests[row], self.block_size
        tokens: list[int] = []
        for key in request.block_keys[: request.prompt_tokens // size]:
            tokens += tokens_of(0, f"block {key}", 0, size, TINY.vocab)
        return tokens + self.answer(row, len(tokens), request.prompt_tokens - len(tokens))

    def answer(self, row: int, position: int, count: int) -> list[int]:
        return tokens_of(0, f"row {row}", position, count, TINY.vocab)

    def sampling(self, row: int) -> SamplingParams:
        return SamplingParams(ignore_eos=True)


def attach(drive: Drive) -> None:
    """Its scheduler's batches are computed from now on. Beams, whose search is the test's own, end that."""
    scheduler = drive.scheduler
    contents = DriveContents(scheduler.limits.block_size)
    executor = Executor(tiny_runner(scheduler.limits), contents)
    add, plan, commit = scheduler.add, scheduler.plan, scheduler.commit
    state = {"computes": True}

    def added(request: Request) -> str | None:
        request.index = len(contents.requests)
        contents.requests.append(request)
        state["computes"] &= request.beams is None
        return add(request)

    def planned(now_s: float) -> Batch:
        batch = plan(now_s)
        if state["computes"]:
            executor.launch(batch)
            COUNTS["steps"] += 1
        return batch

    def committed(now_s: float, *rest: Any, **more: Any) -> list[Request]:
        batch = scheduler.state.in_flight[0]
        stopped, failed = executor.settle(batch)
        assert not stopped and not failed, failed
        ended = commit(now_s, *rest, **more)
        for request in ended:
            if state["computes"] and request.state == FINISHED:
                assert len(executor.sequences.of(request).tokens) == request.prompt_tokens + request.generated
                COUNTS["sequences"] += 1
            executor.end(request)
        return ended

    scheduler.add, scheduler.plan, scheduler.commit = added, planned, committed  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    scenarios.play = play
    init = Drive.__init__

    @wraps(init)
    def begin(drive: Drive, *requests: Request, **more: Any) -> None:
        init(drive, **more)
        attach(drive)
        for request in requests:
            assert drive.scheduler.add(request) is None

    Drive.__init__ = begin  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    if COUNTS_FILE in os.environ:
        Path(os.environ[COUNTS_FILE]).write_text(repr(COUNTS))
