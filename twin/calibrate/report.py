"""What came of a calibration, in words and tables: for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twin.calibrate.calibration import Calibration

HEADINGS = ("region", "MAPE %", "bias %", "p90 %", "steps")


def error_rows(calibration: Calibration) -> list[tuple[str, str, str, str, str]]:
    """One row a region, as HEADINGS."""
    return [
        (name, f"{100 * each.mape:.2f}", f"{100 * each.bias:+.2f}", f"{100 * each.p90:.2f}", f"{each.steps:,}")
        for name, each in calibration.judgement.regions().items()
    ]


def worst_rows(calibration: Calibration, count: int = 5) -> list[tuple[str, ...]]:
    """(step, measured, predicted, error) of the steps that were foretold worst."""
    judgement = calibration.judgement
    rows: list[tuple[str, ...]] = []
    for row in judgement.worst(count):
        step = calibration.steps.step(row)
        decode_context = step.context_tokens - step.prefill_context_tokens
        parts = [f"{step.decode_tokens} decodes of {decode_context:,} tokens"] if step.decode_tokens else []
        if step.prefill_tokens:
            before = step.prefill_context_tokens - step.prefill_tokens
            behind = f" behind {before:,}" if before else ""
            parts.append(f"{step.prefill_sequences} prompts, {step.prefill_tokens:,} tokens{behind}")
        measured, predicted = calibration.steps.seconds[row], judgement.predicted_s[row]
        times = (f"{1e3 * measured:.4g} ms", f"{1e3 * predicted:.4g} ms", f"{100 * judgement.error[row]:+.1f} %")
        rows.append((" + ".join(parts), *times))
    return rows


def remarks(calibration: Calibration, content: Mapping[str, Any]) -> list[str]:
    """All else that a user should know, a line each."""
    lines = list(calibration.steps.notes)
    if calibration.steps.contaminated:
        lines.append(f"{calibration.steps.contaminated:,} contaminated rows left out")
    lines += calibration.doubts
    if calibration.host_s:
        lines.append(f"the host adds {1e3 * calibration.host_s:.3g} ms to every step (host_s)")
    link = calibration.link
    if link is not None:
        rate = "without measurable time a byte" if link.bandwidth_gib_s is None else f"{link.bandwidth_gib_s:.3g} GiB/s"
        options = " ".join(f"swap.{name}={value}" for name, value in content["swap"].items())
        error = f"{link.rows} steps, {100 * link.mape:.1f} % off"
        lines.append(f"swap link: {rate}, {1e6 * link.per_copy_s:.3g} us a copy ({error}); a run takes it: {options}")
    if calibration.added:
        words = ", ".join(f"{name} {value:g}" for name, value in calibration.added.items())
        lines.append(f"added, not measured here: {words}; the errors are those of the fit without it")
    return lines


def range_words(content: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {least:,} to {most:,}" for name, (least, most) in content["range"].items())


def markdown(calibration: Calibration, content: Mapping[str, Any], name: str, command: str) -> str:
    """The report that lies beside the latency file `NAME.yaml`."""
    coefficients = {**content["coefficients"]}
    for kind in ("knees", "tiles"):
        coefficients |= {f"{kind}, {tokens} tokens": value for tokens, value in content.get(kind, {}).items()}
    lines = [
        f"# {name}",
        "",
        f"{content['source']}. Made by `{command}`; `latency=fitted latency.path={name}.yaml` uses it.",
        "",
        f"## Errors of held-out steps ({calibration.held_out})",
        "",
        *_table(HEADINGS, error_rows(calibration)),
        "",
        "A bias above 0 means that the model is too slow. Saturated are steps of at least 0.9 of the most sequences or",
        f"tokens that any had; they are in their own region too. Measured steps scatter by {content['spread']:.2%} about",
        "the model (`latency.noise=true` draws from it).",
        "",
        f"![residuals]({name}.png)",
        "",
        "## Coefficients",
        "",
        *_table(("term", "us"), [(term, f"{1e6 * value:.4g}") for term, value in coefficients.items()]),
        "",
        f"Condition number of the fit: {calibration.condition:.3g}. Measured: {range_words(content)}; beyond it",
        "extrapolates.",
        "",
        "## Steps foretold worst",
        "",
        *_table(("step", "measured", "predicted", "error"), worst_rows(calibration, 10)),
        "",
    ]
    notes = remarks(calibration, content)
    if notes:
        lines += ["## To know", "", *(f"- {note}" for note in notes), ""]
    return "\n".join(lines)


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    headings = list(headings)
    lines = [" | ".join(headings), " | ".join(["---", *["---:"] * (len(headings) - 1)])]
    return [f"| {line} |" for line in [*lines, *(" | ".join(row) for row in rows)]]
