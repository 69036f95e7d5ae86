"""`twin scenario FILE.yaml`: play hand-written micro-scenarios step by step, as JSON lines."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError, naming, one_line
from twin.cli.streams import complain

if TYPE_CHECKING:
    from twin.core.errors import PolicyError
    from twin.sim.device import VirtualDevice
    from twin.sim.scenario import Scenario

HELP = """usage: python -m twin scenario FILE.yaml | FILE.jsonl | FILE.jsonl.gz [policy_path=FOLDER]

Plays a micro-scenario: limits, policy, latency and requests, all in one file. Prints a JSON line a step and a last one
with the summary. A file of many scenarios, a line {"id": ..., "scenario": {...}} each, prints one line for each:
{"id": ..., "steps": [...], "summary": {...}}. Times are virtual seconds; a scenario is synchronous unless it says
scheduler: {async_scheduling: true}.

options
  policy_path=FOLDER  where policies are looked for too, after ./policies

example: python -m twin scenario two_requests.yaml
"""
SUFFIXES = (".yaml", ".yml", ".jsonl", ".jsonl.gz")


class Player:
    """What plays scenarios: the simulator."""

    command = "twin scenario"
    help = HELP

    def device(self, scenario: "Scenario") -> "Callable[..., VirtualDevice]":
        """What computes the steps of a scenario. Raises ValueError."""
        from twin.sim.device import VirtualDevice

        return VirtualDevice

    def done(self) -> None:
        """The scenario that `device` was asked for is over, however it ended."""


SIMULATOR = Player()


def main(words: list[str], player: Player = SIMULATOR) -> int:
    """Plays the one file named; returns the exit status."""
    if "--help" in words or "-h" in words:
        print(player.help, end="")
        return 0
    paths = [word.removeprefix("policy_path=") for word in words if word.startswith("policy_path=")]
    files = [word for word in words if not word.startswith("policy_path=")]
    for word in files:
        if word.startswith("-") or ("=" in word and not Path(word).exists()):
            raise UserError(f"{word}: no such option; there is policy_path, everything else is said in the file")
    if len(files) != 1:
        raise UserError(f"give one file ({', '.join(SUFFIXES)}), not {len(files)}; see --help")
    path = Path(files[0])
    if not path.name.endswith(SUFFIXES):
        raise UserError(f"{path}: not a scenario file; its name must end in one of {', '.join(SUFFIXES)}")
    return play_file(path, paths[-1] if paths else None, player)


def play_file(path: Path, policy_path: str | None = None, player: Player = SIMULATOR) -> int:
    """Prints what each scenario of the file does, after all of them were checked; 1 when a policy failed in one."""
    from twin.sim.scenario import load

    with naming(str(path)):
        scenarios = list(load(path))
    status = 0
    for identity, scenario in scenarios:
        where = str(path) if identity is None else f"{path}: {identity}"
        lines, failure = _played(scenario, where, policy_path, player)
        if identity is None:
            for line in lines:
                _print(line)
        elif failure is None:
            _print({"id": identity, "steps": lines[:-1], **lines[-1]})
        if failure is not None:
            sys.stdout.flush()  # the steps that led to it come first
            complain(f"{player.command}: {where}: {one_line(str(failure))}")
            status = 1
    return status


def _played(
    scenario: "Scenario", where: str, policy_path: str | None, player: Player
) -> "tuple[list[dict[str, Any]], PolicyError | None]":
    """The lines of one scenario, and what its policy did wrong after them."""
    from twin import predictors_registry
    from twin.core.errors import PolicyError
    from twin.policy_assembly import assemble
    from twin.sim.scenario import play

    lines: list[dict[str, Any]] = []
    with naming(where):
        assembly = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts, policy_path)
        policy = assembly.policy
        for line in assembly.shadowed(policy_path):
            complain(f"{player.command}: note: {line}")
        predictor, _ = predictors_registry.find(scenario.predictor, policy_path).build(scenario.predictor_parameters)
        if policy.allocator == "contiguous":  # as in `twin run`: the policy implies it
            scenario = replace(scenario, rules=replace(scenario.rules, allocator=policy.allocator))
        try:
            lines.extend(play(scenario, policy, predictor=predictor, device=player.device(scenario)))
        except PolicyError as error:
            return lines, error
        finally:
            player.done()
        if not assembly.built_in:  # else the version of twin says which it was
            lines[-1]["summary"]["policy"] = assembly.provenance()
    return lines, None


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
