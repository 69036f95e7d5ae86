"""docs/validate.md names every option, every file and every column that there is."""

import re

import pytest

from engine.drift import BLOCK, QUIET_BLOCKS, blocks_to_alarm
from engine.validate import report
from engine.validate.options import LATENCIES, RULES, STATISTICS
from engine.validate.steps import StepErrors
from engine.validate.tables import ERRORS
from tests.docs.pages import page
from twin.cli.compose import compose
from twin.results import folder


def test_every_option_is_documented_with_its_default():
    text = page("validate")
    for name in {rule for rule in RULES if rule.count(".") == 1}:
        assert f"| `{name}=" in text
    given = compose([], root="validate").values["validate"]
    defaults = {"mean": 0.05, "p50": 0.05, "p90": 0.1, "p99": 0.15}
    assert all(given[metric] == defaults for metric in LATENCIES) and tuple(defaults) == STATISTICS
    for name in ("throughput", "queue_slope", "repeats"):
        assert f"`validate.{name}={given[name]}`" in text
    assert f"`validate.loads={','.join(f'{load:g}' for load in given['loads'])}`" in text


@pytest.mark.parametrize("columns", [ERRORS, StepErrors._fields])
def test_every_column_is_documented(columns: tuple[str, ...]):
    assert f"`{', '.join(columns)}`" in page("validate")


def test_every_file_is_documented():
    named = set(re.findall(r"^\| `([\w./]+)` \|", page("validate"), re.MULTILINE))
    files = {report.ERRORS, report.STEP_ERRORS, report.VALIDATION, report.LATENCY, folder.REPORT, folder.CONFIG}
    assert named - {"validate.pin=true", "engine.clock=cpu"} == files | {f"{folder.FIGURES}/"}


def test_what_is_said_of_drift_is_what_the_rule_does():
    text = " ".join(page("validate").split())
    assert f"after {blocks_to_alarm(0.1)} blocks" in text and f"after {blocks_to_alarm(0.2)} where it is 0.2" in text
    assert f"Blocks of {BLOCK} steps" in text and f"once in {QUIET_BLOCKS * BLOCK / 1e6:.0f} million steps" in text
