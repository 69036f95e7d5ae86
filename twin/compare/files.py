"""The files of a comparison: comparison.csv, .json, .md, .tex, figures/*.png, report.html."""

import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

from twin.compare.compare import Comparison
from twin.compare.curves import curves, knees, load_axis, sweep_figures
from twin.compare.intervals import Interval
from twin.compare.pictures import scene_figures
from twin.compare.schedule import Parting
from twin.compare.tables import csv_text, latex, markdown, told
from twin.results.atomic import OutputError, reason
from twin.results.folder import FIGURES, REPORT, RunFolder

CSV, JSON, MARKDOWN, LATEX = "comparison.csv", "comparison.json", "comparison.md", "comparison.tex"


def write_numbers(
    path: Path, comparisons: Sequence[Comparison], partings: Sequence[Sequence[Any]], notes: Sequence[str]
) -> None:
    """The four tables, all or none; figures of an earlier comparison go. Raises OutputError."""
    about = {
        "scenes": [_scene(each) for each in comparisons],
        "schedules": [_parting(*each) for each in partings],
        "knees": _knees(comparisons),
        "notes": list(notes),
    }
    with RunFolder(path) as folder:
        folder.text(CSV, csv_text(comparisons))
        folder.text(JSON, json.dumps(about, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
        folder.text(MARKDOWN, markdown(comparisons))
        folder.text(LATEX, latex(comparisons))
    for old in (path / REPORT, *(path / FIGURES).glob("*.png")):
        try:
            old.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot remove {old}, of an earlier comparison: {reason(error)}") from error


def write_figures(path: Path, scenes: Sequence[Comparison], comparisons: Sequence[Comparison]) -> None:
    """Those of each of the `scenes`, and those over all `comparisons`. Raises OutputError."""
    from twin.results.style import save_png

    with RunFolder(path) as folder:
        for number, each in enumerate(scenes, 1):
            if len(each.scene.variants) < 2 < len(scenes):
                continue
            for name, figure in scene_figures(each):
                behind = f"_{number}" if len(scenes) > 1 else ""
                with folder.writing(f"{FIGURES}/{name}{behind}.png") as handle:
                    save_png(figure, handle)
        for name, figure in sweep_figures(comparisons):
            with folder.writing(f"{FIGURES}/{name}.png") as handle:
                save_png(figure, handle)


def write_page(
    path: Path, comparisons: Sequence[Comparison], partings: Sequence[tuple[str, str, str, Parting]], notes: Sequence[str]
) -> None:
    """report.html. Raises OutputError."""
    from twin.compare.page import comparison_html

    labels = list(dict.fromkeys(label for each in comparisons for label in each.measured))
    title = " against ".join(labels) if len(labels) <= 3 else f"{len(labels)} variants compared"
    with RunFolder(path) as folder:
        folder.text(REPORT, comparison_html(title, comparisons, partings, notes))


def _scene(each: Comparison) -> dict[str, Any]:
    rows = [
        {
            "figure": row.figure.key,
            "variant": row.variant,
            **_interval("", row.value),
            **({} if row.difference is None else _interval("difference_", row.difference)),
            "relative": _known(row.relative),
            "verdict": row.verdict,
        }
        for row in each.rows
    ]
    pairs = [
        {
            "variant": pair.variant,
            "column": pair.column,
            "pairs": pair.pairs,
            **_interval("mean_", pair.mean),
            **{name: getattr(pair, name) for name in ("median", "sooner", "equal", "best", "worst")},
        }
        for pair in each.pairs
    ]
    variants = {variant.label: {"path": str(variant.path), "settings": variant.settings} for variant in each.scene.variants}
    return {
        "name": each.scene.name, "baseline": each.baseline, "confidence": each.confidence, "seeds": each.scene.seeds,
        "variants": variants, "figures": rows, "requests": pairs, "identical": each.identical, "notes": told(each),
    }  # fmt: skip


def _interval(prefix: str, interval: Interval) -> dict[str, Any]:
    return {f"{prefix}value": _known(interval.value), f"{prefix}half_width": _known(interval.half)}


def _parting(scene: str, base: str, variant: str, at: Parting) -> dict[str, Any]:
    return {"scene": scene, "baseline": base, "variant": variant, "step": at.step, "start_s": at.start_s,
            "baseline_did": at.first, "variant_did": at.second, "source": at.source}  # fmt: skip


def _knees(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    axis = load_axis(comparisons)
    return {} if axis is None else {"axis": axis, "load": knees(curves(comparisons, axis))}


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value
