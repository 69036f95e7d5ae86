"""`twin scenario FILE.yaml`: play hand-written micro-scenarios step by step, as JSON lines."""

import json
import sys
from pathlib import Path

from twin.cli.errors import UserError, naming

HELP = """usage: python -m twin scenario FILE.yaml | FILE.jsonl | FILE.jsonl.gz

Plays a micro-scenario: limits, policy, latency and requests, all in one file. Prints a JSON line a step and a last one
with the summary. A file of many scenarios, a line {"id": ..., "scenario": {...}} each, prints one line for each:
{"id": ..., "steps": [...], "summary": {...}}. Times are virtual seconds; every scenario is synchronous unless it says
scheduler: {async_scheduling: true}.

example: python -m twin scenario two_requests.yaml
"""
SUFFIXES = (".yaml", ".yml", ".jsonl", ".jsonl.gz")


def main(words: list[str]) -> int:
    """Plays the one file named; returns the exit status."""
    if "--help" in words or "-h" in words:
        print(HELP, end="")
        return 0
    if len(words) != 1:
        raise UserError(f"give one file ({', '.join(SUFFIXES)}), not {len(words)}; see --help")
    path = Path(words[0])
    if not path.name.endswith(SUFFIXES):
        raise UserError(f"{path}: not a scenario file; its name must end in one of {', '.join(SUFFIXES)}")
    return play_file(path)


def play_file(path: Path) -> int:
    """Prints what every scenario of the file does; 1 when a policy failed in one of them."""
    from twin.core.errors import PolicyError
    from twin.sim import scenario

    bulk = path.name.endswith((".jsonl", ".jsonl.gz"))
    status = 0
    with naming(str(path)):
        for identity, setup in scenario.load(path):
            played: list[dict] = []
            try:
                for line in scenario.play(setup):
                    played.append(line) if bulk else _print(line)
            except PolicyError as error:
                print(f"twin scenario: {path}: {identity}: {error}", file=sys.stderr)
                status = 1
                continue
            if bulk:
                _print({"id": identity, "steps": played[:-1], **played[-1]})
    return status


def _print(line: dict) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
