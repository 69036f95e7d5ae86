"""The words of `twin traces`: names and files, and options in key=value form, which are those of `trace.`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twin.cli.errors import UserError
from twin.cli.quoting import OVERRIDE
from twin.nearest import nearest

FLAGS = ("out", "force")  # also as --out FILE and --force


def parsed(words: list[str], places: str) -> tuple[list[str], dict[str, Any]]:
    """The positional words, as many as `places` names, and the options without the prefix `trace.`."""
    positional: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            if flag not in FLAGS:
                raise UserError(f"{word}: unknown flag; options are written key=value, see --help")
            options[flag] = value if equals else "true" if flag == "force" else next(rest, "")
            if options[flag] == "":
                raise UserError(f"{word}: needs a value: --{flag} FILE")
            options[flag] = plain(options[flag]) if flag == "force" else options[flag]
            continue
        match = OVERRIDE.fullmatch(word)
        if match and match["key"].replace(".", "").isidentifier() and not Path(word).exists():
            options[match["key"].removeprefix("trace.")] = plain(match["value"])
        else:
            positional.append(word)
    wanted = places.split()
    if len(positional) != len(wanted):
        raise UserError(f"give {' and '.join(wanted)}, not {len(positional)} names; see --help")
    return positional, options


def plain(text: str) -> Any:
    """A value as Hydra would understand it: number, true, null, a list; all else is text."""
    import yaml

    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    try:
        value = yaml.safe_load(text) if text[:1] in ("[", "{", "'", '"') or text in ("true", "false", "null") else text
    except yaml.YAMLError as error:
        raise UserError(f"{text}: not readable: {' '.join(str(error).split())}") from error
    return value


def take(options: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Takes the options of `defaults` out of `options`; they must be of the default's type, where it has one."""
    taken = {}
    for name, default in defaults.items():
        value = options.pop(name, default)
        kind = type(default)
        allowed = (int, float) if kind is float else (kind,)
        if default is not None and (type(value) not in allowed or (kind in (int, float) and not 0 <= value < 1e12)):
            words = {bool: "true or false", int: "an integer, not negative", float: "a number, not negative"}[kind]
            raise UserError(f"{name}={value}: must be {words}")
        taken[name] = value
    return taken


def opened(name: str, options: dict[str, Any]) -> Any:
    """The trace of that name: a generator's, a file's, or a fetched one's. Raises ValueError in one line."""
    from traces import open_trace
    from traces.catalogue import PUBLIC
    from traces.fetch import cache_folder
    from traces.generators import GENERATORS

    if name in GENERATORS or name == "mix":
        return open_trace(name, **options)
    if Path(name).exists():
        return open_trace("file", path=name, **options)
    if name in PUBLIC:
        fetched = cache_folder() / PUBLIC[name].file
        if fetched.exists():
            return open_trace("file", path=str(fetched), **options)
        raise UserError(f"{name}: not downloaded yet; run: twin traces fetch {name}")
    known = [*GENERATORS, "mix", *PUBLIC]
    raise UserError(f"{name}: neither a file nor a trace{nearest(name, known)}; twin traces list shows what there is")
