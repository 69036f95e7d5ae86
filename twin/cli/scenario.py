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
    from twin.policy_assembly import Assembly
    from twin.predictor import Predictor
    from twin.sim.device import VirtualDevice
    from twin.sim.scenario import Scenario

HELP = """usage: python -m twin scenario FILE.yaml | FILE.jsonl | FILE.jsonl.gz [policy_path=FOLDER] [pool_view=FILE.html]

Plays a micro-scenario: limits, policy, latency and requests, all in one file. Prints a JSON line a step and a last one
with the summary. A file of many scenarios, a line {"id": ..., "scenario": {...}} each, prints one line for each:
{"id": ..., "steps": [...], "summary": {...}}. Times are virtual seconds; a scenario is synchronous unless it says
scheduler: {async_scheduling: true}.

options
  policy_path=FOLDER   where policies are looked for too, after ./policies
  pool_view=FILE.html  write a page that shows the block pool after every step, to play and step through

example: python -m twin scenario two_requests.yaml
"""
SUFFIXES = (".yaml", ".yml", ".jsonl", ".jsonl.gz")
OPTIONS = ("policy_path", "pool_view")


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
    given = {name: value for name, _, value in (word.partition("=") for word in words) if name in OPTIONS}
    files = [word for word in words if word.partition("=")[0] not in OPTIONS]
    for word in files:
        if word.startswith("-") or ("=" in word and not Path(word).exists()):
            raise UserError(
                f"{word}: no such option; there are {' and '.join(OPTIONS)}, everything else is said in the file"
            )
    if len(files) != 1:
        raise UserError(f"give one file ({', '.join(SUFFIXES)}), not {len(files)}; see --help")
    path = Path(files[0])
    if not path.name.endswith(SUFFIXES):
        raise UserError(f"{path}: not a scenario file; its name must end in one of {', '.join(SUFFIXES)}")
    view = given.get("pool_view")
    return play_file(path, given.get("policy_path"), player, None if view is None else _page_at(view, path))


def _page_at(view: str, path: Path) -> Path:
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"pool_view={view}: shows one scenario, and {path} may hold many; give a .yaml file")
    if not view.endswith(".html"):
        raise UserError(f"pool_view={view}: the page's name must end in .html")
    if not Path(view).parent.is_dir():
        raise UserError(f"pool_view={view}: there is no folder {Path(view).parent}")
    return Path(view)


def play_file(path: Path, policy_path: str | None = None, player: Player = SIMULATOR, view: Path | None = None) -> int:
    """Prints what each scenario of the file does, after all of them were checked; 1 when a policy failed in one.

    `view`: a page is written there that shows the pool after every step, of a file with one scenario.
    """
    from twin.sim.scenario import load

    with naming(str(path)):
        scenarios = list(load(path))
    if view is not None:
        from twin.cli.pool_view import too_large

        if (why := too_large(scenarios[0][1].limits)) is not None:
            raise UserError(f"pool_view={view}: {why}")
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
        if view is not None:
            _write_view(view, path, scenario, policy_path)
    return status


def _write_view(view: Path, path: Path, scenario: "Scenario", policy_path: str | None) -> None:
    """Plays it once more, with a policy that has served nobody yet, and looks at the pool after every step."""
    from twin.cli.pool_view import watch_scenario, write
    from twin.results.atomic import OutputError

    scenario, assembly, predictor = _parts(scenario, policy_path)
    watch = watch_scenario(scenario, assembly.policy, predictor)
    try:
        write(view, watch.html(path.name, f"policy {scenario.policy_name}"))
    except OutputError as error:
        raise UserError(f"pool_view={view}: {error}") from error


def _played(
    scenario: "Scenario", where: str, policy_path: str | None, player: Player
) -> "tuple[list[dict[str, Any]], PolicyError | None]":
    """The lines of one scenario, and what its policy did wrong after them."""
    from twin.core.errors import PolicyError
    from twin.sim.scenario import play

    lines: list[dict[str, Any]] = []
    with naming(where):
        scenario, assembly, predictor = _parts(scenario, policy_path)
        for line in assembly.shadowed(policy_path):
            complain(f"{player.command}: note: {line}")
        try:
            lines.extend(play(scenario, assembly.policy, predictor=predictor, device=player.device(scenario)))
        except PolicyError as error:
            return lines, error
        finally:
            player.done()
        if not assembly.built_in:  # else the version of twin says which it was
            lines[-1]["summary"]["policy"] = assembly.provenance()
    return lines, None


def _parts(scenario: "Scenario", policy_path: str | None) -> "tuple[Scenario, Assembly, Predictor]":
    """The scenario as its policy has it, with that policy and the predictor, both new."""
    from twin import predictors_registry
    from twin.policy_assembly import assemble

    assembly = assemble(scenario.policy_name, scenario.policy_parameters, scenario.policy_parts, policy_path)
    predictor, _ = predictors_registry.find(scenario.predictor, policy_path).build(scenario.predictor_parameters)
    if assembly.policy.allocator == "contiguous":  # as in `twin run`: the policy implies it
        scenario = replace(scenario, rules=replace(scenario.rules, allocator=assembly.policy.allocator))
    return scenario, assembly, predictor


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
