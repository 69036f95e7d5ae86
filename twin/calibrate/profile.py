"""`twin calibrate profile=...`: a latency file from measured steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twin.calibrate.calibration import ADDABLE, Calibration, calibrate
from twin.calibrate.fit import Prior
from twin.calibrate.identity import conflicts, differences
from twin.calibrate.options import Options
from twin.calibrate.readers import Wanted, read
from twin.calibrate.steps import Steps, joined
from twin.calibrate.units import wrong_unit
from twin.latency.make import make_roofline
from twin.latency.model import LatencyModel
from twin.memory import gpu_from, model_shape, plan_memory

OWN = {  # option: (default, what it is)
    "profile": ("", "files or folders of measured steps or kernels, with commas between (docs/calibrate.md)"),
    "to": ("", "NAME.yaml, the latency file to write; NAME.md and NAME.png are written beside it"),
    "holdout": ("", "runs, with commas between, that the fit does not see; empty: every part in turn"),
    "calibrate.force": ("false", "true: fit although the profile is of another model or GPU, or its unit looks wrong"),
    "calibrate.prior": (
        "null",
        "relative standard deviation of the roofline's coefficients, 0.3 say, added as prior; null: none",
    ),
    "calibrate.add": ("null", f"NAME:SECONDS,... what the profile lacks, of {', '.join(ADDABLE)}; null: nothing"),
    "calibrate.source": ("null", "a sentence for the latency file: where the times are from, under which licence"),
}


SECTIONS = ("model", "gpu", "parallel", "cache")  # of the configuration, that it reads


def main(options: Options) -> int:
    """Reads, fits, reports, writes. Raises ValueError for whatever is wrong with the user's files and options."""
    to = _target(options.own["to"])
    wanted = _wanted(options)
    force = _switch("calibrate.force", options.own["calibrate.force"])
    steps = gather([Path(word) for word in _words(options.own["profile"])], wanted, force)
    added = _added(options.own["calibrate.add"])
    prior = _prior(options.own["calibrate.prior"], wanted)
    calibration = calibrate(steps, _words(options.own["holdout"]), prior, added)
    content = calibration.content(about(steps, wanted, _text(options.own["calibrate.source"])))
    _write(to, calibration, content, options.command)
    show(calibration, content, to)
    return 0


def gather(paths: list[Path], wanted: Wanted, force: bool = False) -> Steps:
    """The steps of all files, if they are of one model on one device, the one that was asked for, and in seconds."""
    if not paths:
        raise ValueError("profile=: empty; give profile=FILE, or several files with commas between")
    parts = [read(path, wanted) for path in paths]
    asked = (wanted.model if wanted.model_given else None, wanted.gpu if wanted.gpu_given else None)
    gpus = wanted.gpus if wanted.gpus > 1 else None
    told = "; calibrate.force=true fits all the same"
    for path, part in zip(paths, parts, strict=True):
        wrong = differences(part.about, *asked, gpus)
        if wrong and not force:
            raise ValueError(f"profile={path}: it is of {', '.join(wrong)}{told}")
    mixed = conflicts([part.about for part in parts])
    if mixed and not force:
        raise ValueError(
            f"profile={','.join(map(str, paths))}: of different {'; '.join(mixed)}; one fit is for one of them{told}"
        )
    steps = joined(parts)
    unit = wrong_unit(steps, roofline(wanted) if None not in asked else None)
    if unit is not None and not force:
        raise ValueError(f"profile={paths[0]}: {unit}: are the durations in seconds?{told}")
    return steps


def roofline(wanted: Wanted) -> LatencyModel:
    return make_roofline({}, wanted.model, wanted.gpu, wanted.gpus)


def about(steps: Steps, wanted: Wanted, source: str | None) -> dict[str, Any]:
    """The head of a latency file: whom the times are of, as the user said, or else as the files say."""
    model = wanted.model.name if wanted.model_given else steps.about.model
    gpu = wanted.gpu.name if wanted.gpu_given else steps.about.gpu
    gpus = wanted.gpus if wanted.gpus > 1 else steps.about.gpus
    return {
        "model": model,
        "gpu": gpu,
        "tensor_parallel_size": gpus if gpus and gpus > 1 else None,
        "source": source or f"{len(steps):,} {steps.source}",
    }


def show(calibration: Calibration, content: Mapping[str, Any], to: Path) -> None:
    """On the terminal."""
    from rich.console import Console
    from rich.table import Table

    from twin.calibrate.report import HEADINGS, error_rows, range_words, remarks, worst_rows

    console = Console(highlight=False, markup=False)
    console.print(str(content["source"]), soft_wrap=True)
    console.print(f"errors: {calibration.held_out}", soft_wrap=True)
    for headings, rows in (
        (HEADINGS, error_rows(calibration)),
        (("foretold worst", "measured", "predicted", "error"), worst_rows(calibration)),
    ):
        table = Table(box=None, pad_edge=False)
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        console.print()
    console.print(f"measured: {range_words(content)}", soft_wrap=True)
    for note in remarks(calibration, content):
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"written to {to}; use it with latency=fitted latency.path={to}", soft_wrap=True)


def _write(to: Path, calibration: Calibration, content: dict[str, Any], command: str) -> None:
    from twin.calibrate.figure import residual_figure
    from twin.calibrate.report import markdown
    from twin.calibrate.save import latency_file, png, save

    save({
        to: latency_file(content).encode(),
        to.with_suffix(".md"): markdown(calibration, content, to.stem, command).encode(),
        to.with_suffix(".png"): png(residual_figure(calibration.judgement)),
    })  # fmt: skip


def _target(text: str) -> Path:
    path = Path(text)
    if not text:
        raise ValueError("to: missing; give to=NAME.yaml")
    if path.suffix != ".yaml":
        raise ValueError(f"to={text}: the name must end in .yaml")
    if path.is_dir():
        raise ValueError(f"to={text}: that is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"to={text}: no such folder: {path.parent}")
    return path


def _wanted(options: Options) -> Wanted:
    values = options.values

    def given(group: str) -> bool:
        return any(key == group or key.startswith(f"{group}.") for key in options.given)

    model = model_shape(values["model"], values["cache"]["kv_cache_dtype"])
    gpu = gpu_from(values["gpu"])
    return Wanted(model, gpu, values["parallel"]["tensor_parallel_size"], given("model"), given("gpu"))


def _prior(text: str, wanted: Wanted) -> Prior | None:
    if text == "null":
        return None
    try:
        sd = float(text)
    except ValueError:
        sd = 0.0
    if not 0 < sd <= 10:
        raise ValueError(f"calibrate.prior={text}: must be a relative standard deviation, above 0 and at most 10, or null")
    if not (wanted.model_given and wanted.gpu_given):
        raise ValueError("calibrate.prior: shape and data sheet are those of model= and gpu=; give both")
    from twin.calibrate.prior import from_roofline
    from twin.calibrate.readers.composed import Extent

    tokens = plan_memory(wanted.model, wanted.gpu, tensor_parallel_size=wanted.gpus).tokens
    return from_roofline(roofline(wanted), Extent(256, 8192, tokens), sd)


def _added(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in [] if text == "null" else _words(text):
        name, _, number = word.partition(":")
        if name not in ADDABLE:
            raise ValueError(f"calibrate.add={text}: no term {name}; there are {', '.join(ADDABLE)}")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = -1.0
        if not 0 < found[name] < 1e6:
            raise ValueError(f"calibrate.add={text}: {name} must be a number above 0, as in {name}:0.002")
    return found


def _switch(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{name}={text}: must be true or false")
    return text == "true"


def _text(text: str) -> str | None:
    return None if text == "null" else text


def _words(text: str) -> list[str]:
    """What stands between commas, in brackets or not."""
    return [word.strip() for word in text.strip("[]").split(",") if word.strip()]
