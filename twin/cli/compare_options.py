"""The words of `twin compare`: folders, and options of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError
from twin.cli.options import NOT_NEGATIVE, POSITIVE, SWITCH, Rule, integer, one_of, or_null, shown
from twin.cli.quoting import key_of
from twin.nearest import nearest

if TYPE_CHECKING:
    from twin.compare.kept import Options

CONFIDENCE = Rule(lambda value: type(value) is float and 0.5 <= value <= 0.999, "a share, 0.5 to 0.999")
TEXT = Rule(lambda value: isinstance(value, str) and value != "", "a name")
OPTIONS: dict[str, tuple[Any, Rule, str]] = {  # the value now, what it must be, what it is
    "to": (None, or_null(TEXT), "the folder to write to; null: outputs/DATE/TIME"),
    "baseline": (None, or_null(TEXT), "the variant that others are compared with, its label or folder; null: the first"),
    "confidence": (0.95, CONFIDENCE, "of the intervals"),
    "warmup": ("auto", one_of("auto", "mser5", "none"),
               "what is left out: auto (as the runs were told, else MSER-5), mser5, none"),
    "warmup_s": (0.0, NOT_NEGATIVE, "leave out requests that arrive earlier"),
    "warmup_requests": (0, integer(0), "leave out so many first requests"),
    "traces": ("same", one_of("same", "different"), "different: compare runs of other requests too, without pairs"),
    **{f"slo.{metric}_s": (None, or_null(POSITIVE), "seconds that a request may take; null: as the runs have it")
       for metric in ("ttft", "tpot", "e2e")},
    "output.figures": (True, SWITCH, "figures/*.png"),
    "output.report": (True, SWITCH, "report.html"),
}  # fmt: skip


@dataclass(frozen=True)
class CompareOptions:
    """What was asked for."""

    folder: Path | None
    different_traces: bool
    figures: bool
    report: bool
    how: "Options"


def read_options(words: list[str]) -> tuple[list[Path], CompareOptions]:
    """The folders in order, and the options. Raises `UserError`."""
    from twin.compare.kept import Options

    paths: list[Path] = []
    values = {name: default for name, (default, _, _) in OPTIONS.items()}
    for word in words:
        if word.startswith("-"):
            raise UserError(f"{word}: unknown flag; options are written key=value, see --help")
        key = key_of(word)
        if key and (key in OPTIONS or not Path(word).exists()):
            values[key] = _value(word, key)
        else:
            paths.append(Path(word))
    if not paths:
        raise UserError("no folder; give those of two runs or more, or that of a sweep")
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"{path}: given twice")
    limits = {name.removeprefix("slo."): limit for name, limit in values.items() if name.startswith("slo.") and limit}
    how = Options(values["baseline"], values["confidence"], values["warmup"], float(values["warmup_s"]),
                  values["warmup_requests"], limits)  # fmt: skip
    folder = None if values["to"] is None else Path(values["to"])
    return paths, CompareOptions(
        folder, values["traces"] == "different", values["output.figures"], values["output.report"], how
    )


def help_lines() -> Iterator[str]:
    """A line an option."""
    for name, (default, _, what) in OPTIONS.items():
        yield f"  {f'{name}={shown(default)}':<24}  {what}"


def _value(word: str, key: str) -> Any:
    if key not in OPTIONS:
        raise UserError(f"{word}: no such option or folder{nearest(key, OPTIONS)} (options: {', '.join(OPTIONS)})")
    default, rule, _ = OPTIONS[key]
    text = word.partition("=")[2]
    value = _read(text, default if default is not None else rule)
    if not rule.allows(value):
        raise UserError(f"{key}={text}: must be {rule.words}")
    return value


def _read(text: str, like: Any) -> Any:
    """The text as a value of the kind that the option has; as text where it cannot be that."""
    if text == "null":
        return None
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(like, str) or (isinstance(like, Rule) and like.allows("x")):
        return text
    try:
        return int(text) if isinstance(like, int) else float(text)
    except ValueError:
        return text
