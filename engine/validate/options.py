"""The options of a validation, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twin.cli.errors import UserError
from twin.cli.groups import flat
from twin.cli.options import NOT_NEGATIVE, SWITCH, Rule, check_rules, integer, is_number, or_null, shown

LATENCIES = ("ttft", "tpot", "e2e")
STATISTICS = ("mean", "p50", "p90", "p99")
NAMES = or_null(
    Rule(
        lambda value: isinstance(value, list) and value != [] and all(isinstance(each, str) and each for each in value),
        "names with commas between",
    )
)
LOADS = Rule(
    lambda value: isinstance(value, list) and value != [] and all(is_number(each) and 0.01 <= each <= 100 for each in value),
    "shares of the capacity with commas between, each from 0.01 to 100",
)
RULES = {
    "validate.policies": NAMES,
    "validate.traces": NAMES,
    "validate.loads": LOADS,
    "validate.repeats": integer(1, 1000),
    "validate.pin": SWITCH,
    **{f"validate.{metric}.{statistic}": NOT_NEGATIVE for metric in LATENCIES for statistic in STATISTICS},
    "validate.throughput": NOT_NEGATIVE,
    "validate.queue_slope": NOT_NEGATIVE,
}
LISTS = ("validate.policies", "validate.traces", "validate.loads")  # commas without brackets are enough


@dataclass(frozen=True)
class Options:
    """What `validate.*` says."""

    policies: list[str] | None
    traces: list[str] | None
    loads: list[float]
    repeats: int
    pin: bool
    tolerances: Mapping[str, float]  # "ttft mean": share of the engine's value


def options_of(config: dict[str, Any]) -> Options:
    """Raises `UserError` for the first value that is not allowed."""
    check_rules(RULES, config)
    given = config["validate"]
    strangers = [name for name in flat(given, "validate.") if name not in RULES]
    if strangers:
        raise UserError(f"{strangers[0]}: no such option; there are {', '.join(RULES)}")
    loads = [float(load) for load in given["loads"]]
    if len(set(loads)) < len(loads):
        raise UserError(f"validate.loads={shown(given['loads'])}: each of them once")
    tolerances = {f"{metric} {statistic}": given[metric][statistic] for metric in LATENCIES for statistic in STATISTICS}
    tolerances |= {name: given[name] for name in ("throughput", "queue_slope")}
    return Options(given["policies"], given["traces"], loads, given["repeats"], given["pin"], tolerances)


def refuse_unlike(config: dict[str, Any]) -> None:
    """Options under which the two halves cannot be compared. Raises `UserError`."""
    sampling = config["sampling"]
    if not sampling["ignore_eos"]:
        raise UserError(
            "sampling.ignore_eos=false: the simulator cannot know when a text ends; leave it true, so that outputs are "
            "as long as the trace says"
        )
    for name in ("n", "beam_width"):
        if sampling[name] != 1:
            raise UserError(f"sampling.{name}={shown(sampling[name])}: must be 1 here; a trace may have a column n")
    if config["seeds"] != 1:
        raise UserError(f"seeds={shown(config['seeds'])}: must be 1 here; validate.repeats is how often the engine runs")


def as_lists(word: str) -> str:
    """`validate.loads=0.3,0.7` as Hydra wants it, in brackets."""
    key, equals, value = word.partition("=")
    if key in LISTS and equals and value not in ("null", "") and not value.startswith(("[", "'", '"')):
        return f"{key}=[{value}]"
    return word
