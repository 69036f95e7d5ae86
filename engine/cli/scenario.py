"""`engine scenario FILE.yaml`: the micro-scenarios of `twin scenario`, computed by a tiny model with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.cli.words import torch_or_explain
from twin.cli import scenario as simulated

if TYPE_CHECKING:
    from engine.device import EngineDevice
    from engine.executor import Executor
    from twin.sim.scenario import Scenario

HELP = """usage: python -m engine scenario FILE.yaml | FILE.jsonl | FILE.jsonl.gz [policy_path=FOLDER] [pool_view=FILE.html]

Plays a micro-scenario on the real engine: a tiny transformer with random weights, whose paged cache has the scenario's
blocks; end-of-sequence tokens are ignored. The clock is the scenario's latency, so the lines are those of
python -m twin scenario; measured_s beside them is what each step took here.

options
  policy_path=FOLDER   where policies are looked for too, after ./policies
  pool_view=FILE.html  write a page that shows the block pool after every step, by the simulator, which decides the same

example: python -m engine scenario two_requests.yaml
"""


class EnginePlayer(simulated.Player):
    """The model is made once, a cache for each scenario."""

    command = "engine scenario"
    help = HELP

    def __init__(self) -> None:
        self.executor: Executor | None = None

    def device(self, scenario: Scenario) -> Callable[..., EngineDevice]:
        from engine.contents import scenario_contents
        from engine.device import device_for
        from engine.executor import Executor
        from engine.tiny import tiny_runner
        from twin.sim.scenario import ScenarioTrace

        runner = tiny_runner(scenario.limits)
        contents = scenario_contents(ScenarioTrace(scenario).rows, runner.model.config.vocab)
        self.executor = Executor(runner, contents, overlap=scenario.rules.async_scheduling)
        return device_for(self.executor, clock=None)

    def done(self) -> None:
        if self.executor is not None:
            self.executor.close()
            self.executor = None


def main(words: list[str]) -> int:
    """Plays the one file named; returns the exit status."""
    torch_or_explain()
    return simulated.main(words, EnginePlayer())
