"""The options of a comparison with a real vLLM, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.validate.options import LATENCIES, STATISTICS
from twin.cli.errors import UserError
from twin.cli.groups import flat
from twin.cli.options import NOT_NEGATIVE, check_rules
from twin.cli.quoting import key_of

OWN = {  # option: what it is; their values are taken as they are typed
    "recorded": "a folder of a recorded run, or of several in folders of their own; several, with commas between",
    "fit": "names of the runs that step times are fitted to, with commas between; left out: of each prediction all others",
    "predict": "names of the runs to predict; left out: all that nothing is fitted to by name",
}
SECTIONS = ("validate", "output", "hydra")  # of the configuration, that a comparison with recorded runs reads
TOLERANCES = {f"{metric} {statistic}": f"validate.{metric}.{statistic}" for metric in LATENCIES for statistic in STATISTICS}
TOLERANCES |= {"throughput": "validate.throughput", "step_mape": "validate.step_mape"}
RULES = dict.fromkeys(TOLERANCES.values(), NOT_NEGATIVE)


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
            rest.append(word)
        elif key in found:
            raise UserError(f"{word}: {key}= is given twice; put commas between")
        else:
            found[key] = word.partition("=")[2]
    values = {key: _names(key, text) for key, text in found.items()}
    return Own([Path(name) for name in values.get("recorded", [])], values.get("fit"), values.get("predict"), rest)


def _names(key: str, text: str) -> list[str]:
    if key == "recorded" and text and Path(text).is_dir():
        return [text]
    names = [name.strip() for name in text.strip("[]").split(",") if name.strip()]
    if not names:
        raise UserError(f"{key}=: empty; it is {OWN[key]}")
    return names


def refuse_others(words: list[str], sections: tuple[str, ...] = SECTIONS) -> None:
    """Options that say nothing to a comparison with recorded runs."""
    for word in words:
        section = (key_of(word) or word).partition(".")[0].lstrip("+~")
        if not word.startswith("-") and section not in sections:
            raise UserError(
                f"{word}: not with recorded=, where the recording says what was run; there are {', '.join(OWN)} and the "
                f"options of {', '.join(sections)}"
            )


def tolerances(config: dict[str, Any]) -> Mapping[str, float]:
    """Raises `UserError` for the first value that is not allowed."""
    strangers = [name for name in flat(config["validate"], "validate.") if name not in RULES]
    if strangers:
        raise UserError(f"{strangers[0]}: no such option; there are {', '.join(RULES)}")
    check_rules(RULES, config)
    given = flat(config)
    return {metric: float(given[option]) for metric, option in TOLERANCES.items()}
