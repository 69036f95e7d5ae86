"""`engine oracle FILE.yaml`: what vLLM's own scheduler decides in a micro-scenario, and where ours decides otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError, naming
from twin.cli.scenario import SUFFIXES

if TYPE_CHECKING:
    from twin.sim.scenario import Scenario

HELP = """usage: python -m engine oracle FILE.yaml | FILE.jsonl | FILE.jsonl.gz [--diff]

Plays a micro-scenario through the scheduler and the block manager of the vLLM that is installed here, with a virtual clock
and no model, and prints its decisions in the format of python -m twin scenario. A request that could never be served is
rejected when it arrives, as we do; vLLM's scheduler alone would wait for ever. What vLLM cannot be told (swapping, n > 1,
pauses, policies other than fcfs and priority, ...) is refused.

--diff plays it with ours too, under the rules of that version (docs/vllm.md), and prints the first step that differs, both
states beside each other; exit status 1 if there is one.

example: python -m engine oracle two_requests.yaml --diff
"""
SAME, DIFFERENT = 0, 1
WITH_DEFECTS = "vLLM serves a hit on blocks never computed here: with vllm_defects: true in the file both decide the same"


def main(words: list[str]) -> int:
    """Plays the one file named; returns the exit status."""
    if "--help" in words or "-h" in words:
        print(HELP, end="")
        return SAME
    path, compares = _read(words)
    from engine.oracle.versions import NotHere, installed
    from twin.sim.scenario import load

    with naming(str(path)):
        scenarios = list(load(path))
    try:
        version = installed()
    except NotHere as error:
        raise UserError(str(error)) from error
    status = SAME
    for identity, scenario in scenarios:
        where = str(path) if identity is None else f"{path}: {identity}"
        rows = _vllm(scenario, version, where)
        if compares:
            lines = list(_differences(scenario, rows, version))
            print("\n".join(f"{where}: {line}" for line in lines) or f"{where}: vLLM {version} and ours decide the same")
            status = DIFFERENT if lines else status
        elif identity is None:
            for row in rows:
                print(json.dumps(row))
        else:
            print(json.dumps({"id": identity, "steps": rows[:-1], **rows[-1]}))
        sys.stdout.flush()
    return status


def _read(words: list[str]) -> tuple[Path, bool]:
    """The file, and whether it is to be compared."""
    files = [word for word in words if word != "--diff"]
    for word in files:
        if word.startswith("-") or ("=" in word and not Path(word).exists()):
            raise UserError(f"{word}: no such option; there is --diff, everything else is said in the file")
    if len(files) != 1:
        raise UserError(f"give one file ({', '.join(SUFFIXES)}), not {len(files)}; see --help")
    path = Path(files[0])
    if not path.name.endswith(SUFFIXES):
        raise UserError(f"{path}: not a scenario file; its name must end in one of {', '.join(SUFFIXES)}")
    return path, len(files) < len(words)


def _vllm(scenario: Scenario, version: str, where: str) -> list[dict[str, Any]]:
    from engine.oracle.ours import with_rules_of
    from engine.oracle.versions import refusals

    refused = refusals(scenario, version)
    if refused:
        raise UserError(f"{where}: vLLM {version} cannot play {refused[0]}")
    from engine.oracle.play import Play

    scenario = with_rules_of(scenario, version)
    try:
        return Play(scenario, abort_before_update=scenario.rules.abort_before_update).run()
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def _differences(scenario: Scenario, rows: list[dict[str, Any]], version: str) -> Iterator[str]:
    """In lines; nothing if both decide the same."""
    from dataclasses import replace

    from engine.oracle.compare import first_difference
    from engine.oracle.ours import play_ours, with_rules_of

    scenario = with_rules_of(scenario, version)
    found = first_difference(play_ours(scenario), rows)
    yield from found
    if found and not scenario.rules.vllm_defects:
        with_defects = replace(scenario, rules=replace(scenario.rules, vllm_defects=True))
        if not first_difference(play_ours(with_defects), rows):
            yield WITH_DEFECTS
