"""The Python that runs vLLM: whether it has a vLLM that can be compared, and how it finds this project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from twin.cli.errors import UserError, one_line

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("0.32",)  # whose AsyncLLM child.py is written for
ASK_S = 120.0
MOST_TOLD = 200  # characters of what it says instead of an answer
QUESTION = """
import json, sys
try:
    import engine.ground_truth.live.child
    from engine.oracle.versions import NotHere, installed
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit()
try:
    print(json.dumps({"version": installed()}))
except NotHere as error:
    print(json.dumps({"no_vllm": str(error)}))
"""


class Interpreter(NamedTuple):
    """Where it is, and with which PYTHONPATH it finds this project."""

    python: str
    environment: dict[str, str]
    version: str


def find(python: str | None) -> Interpreter:
    """`python`: its path; None: that of this process. Raises `UserError`."""
    where = python or sys.executable
    environment = dict(os.environ)
    answer = _ask(where, environment)
    if "missing" in answer and (ROOT / "pyproject.toml").is_file():
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
        answer = _ask(where, environment)
    if "missing" in answer:
        raise UserError(
            f"vllm.python={where}: this project cannot be used there ({one_line(answer['missing'])}); install it with "
            f"{where} -m pip install twin-serving"
        )
    if "no_vllm" in answer:
        hint = "" if python else "; vllm.python=PATH names the Python of an environment that has it"
        raise UserError(f"vllm.python={where}: {answer['no_vllm']}{hint}")
    if answer["version"] not in VERSIONS:
        raise UserError(
            f"vllm.python={where}: vLLM {answer['version']} is installed there; runs are recorded with {', '.join(VERSIONS)}"
        )
    return Interpreter(where, environment, answer["version"])


def _ask(python: str, environment: dict[str, str]) -> dict[str, str]:
    try:
        asked = subprocess.run(
            [python, "-c", QUESTION], env=environment, capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except OSError as error:
        raise UserError(
            f"vllm.python={python}: {(error.strerror or str(error)).lower()}; give the path of a Python"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"vllm.python={python}: no answer within {ASK_S:g} s") from error
    lines = asked.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if asked.returncode or not isinstance(answer, dict):
        told = (asked.stderr.strip().splitlines() or ["nothing"])[-1]
        raise UserError(f"vllm.python={python}: is no Python that can be used: it said {one_line(told, MOST_TOLD)}")
    return answer
