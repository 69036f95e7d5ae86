"""The options of a comparison with a real vLLM, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.validate.options import LATENCIES, LOADS, STATISTICS
from twin.cli.errors import UserError
from twin.cli.groups import flat
from twin.cli.options import NOT_NEGATIVE, POSITIVE, WORD, Rule, check_rules, integer, one_of, or_null, shown
from twin.cli.quoting import key_of

OWN = {  # option: what it is; their values are taken as they are typed
    "recorded": "a folder of a recorded run, or of several in folders of their own; several, with commas between; left out: "
    "runs are played now, by a vLLM that is started for it",
    "fit": "names of the runs that step times are fitted to, with commas between; left out: of each prediction all others",
    "predict": "names of the runs to predict; left out: all that nothing is fitted to by name",
}
SECTIONS = ("validate", "output", "hydra")  # of the configuration, that a comparison with recorded runs reads
TOLERANCES = {f"{metric} {statistic}": f"validate.{metric}.{statistic}" for metric in LATENCIES for statistic in STATISTICS}
TOLERANCES |= {"throughput": "validate.throughput", "step_mape": "validate.step_mape"}
CORES = Rule(
    lambda value: isinstance(value, list) and value != [] and all(type(core) is int and core >= 0 for core in value),
    "numbers of cores with commas between",
)
RULES = dict.fromkeys(TOLERANCES.values(), NOT_NEGATIVE) | {
    "validate.loads": LOADS,
    "validate.repeats": integer(1, 1000),
    "vllm.python": or_null(WORD),
    "vllm.model": or_null(WORD),
    "vllm.scheduler_cls": or_null(WORD),
    "vllm.threads": integer(1, 1024),
    "vllm.cores": or_null(CORES),
    "vllm.clock": one_of("wall", "cpu"),
    "vllm.start_timeout_s": POSITIVE,
    "vllm.run_timeout_s": POSITIVE,
}
LISTS = ("validate.loads", "vllm.cores")  # commas without brackets are enough


class Own(NamedTuple):
    """What the command's own words say."""

    recorded: list[Path]
    fit: list[str] | None
    predict: list[str] | None
    rest: list[str]  # the words that are Hydra's


def own_words(words: list[str]) -> Own:
    """Raises `UserError` for one that is given twice or is empty."""
    found: dict[str, str] = {}
    rest = []
    for word in words:
        key = key_of(word)
        if key not in OWN:
            rest.append(_as_list(word))
        elif key in found:
            raise UserError(f"{word}: {key}= is given twice; put commas between")
        else:
            found[key] = word.partition("=")[2]
    values = {key: _names(key, text) for key, text in found.items()}
    return Own([Path(name) for name in values.get("recorded", [])], values.get("fit"), values.get("predict"), rest)


def _as_list(word: str) -> str:
    """`validate.loads=0.3,0.6` as Hydra wants it, in brackets."""
    key, equals, value = word.partition("=")
    if key in LISTS and equals and value not in ("null", "") and not value.startswith(("[", "'", '"')):
        return f"{key}=[{value}]"
    return word


def _names(key: str, text: str) -> list[str]:
    if key == "recorded" and text and Path(text).is_dir():
        return [text]
    names = [name.strip() for name in text.strip("[]").split(",") if name.strip()]
    if not names:
        raise UserError(f"{key}=: empty; it is {OWN[key].partition(';')[0]}")
    return names


def refuse_others(words: list[str]) -> None:
    """Options that say nothing to a comparison with recorded runs."""
    for word in words:
        section = (key_of(word) or word).partition(".")[0].lstrip("+~")
        if not word.startswith("-") and section not in SECTIONS:
            raise UserError(
                f"{word}: not with recorded=, where the recording says what was run; there are {', '.join(OWN)} and the "
                f"options of {', '.join(SECTIONS)}"
            )


def check(config: dict[str, Any]) -> None:
    """Raises `UserError` for the first value that is not allowed."""
    for section in ("validate", "vllm"):
        strangers = [name for name in flat(config[section], f"{section}.") if name not in RULES]
        if strangers:
            raise UserError(f"{strangers[0]}: no such option; there are {', '.join(RULES)}")
    check_rules(RULES, config)
    if config["vllm"]["clock"] == "cpu" and config["vllm"]["threads"] > 1:
        raise UserError("vllm.clock=cpu: counts the time of one thread; it needs vllm.threads=1")
    loads = config["validate"]["loads"]
    if len(set(map(float, loads))) < len(loads):
        raise UserError(f"validate.loads={shown(loads)}: each of them once")


def tolerances(config: dict[str, Any]) -> Mapping[str, float]:
    """By what they are of."""
    given = flat(config)
    return {metric: float(given[option]) for metric, option in TOLERANCES.items()}
