"""What a study leaves: tables on the terminal; CSV, JSON, figures and a page in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.ground_truth import tables
from engine.ground_truth.recording import Recording
from engine.ground_truth.study import Case, Study
from engine.validate.figures import load_figure, parity_figure, residuals_figure
from twin.calibrate.save import latency_file
from twin.results import folder as files
from twin.results import page, style
from twin.results.folder import RunFolder, plain, yaml_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS, STEP_ERRORS, SPREADS, VALIDATION = "errors.csv", "step_errors.csv", "spreads.csv", "validation.json"
CAPTIONS = {
    "parity": "Request by request: vLLM across (mean of its runs), the simulator up.",
    "load": "Over time: vLLM (engine) and the simulator.",
    "residuals": "Its steps, which the latency model was not fitted to.",
}


def save(folder: RunFolder, study: Study, config: dict[str, Any], command: str) -> None:
    """Numbers and pictures, all or none. Raises OutputError."""
    output = config["output"]
    folder.config(config | {"command": command})
    folder.text(ERRORS, tables.errors_csv(study))
    folder.text(STEP_ERRORS, tables.steps_csv(study))
    folder.text(SPREADS, tables.spreads_csv(study))
    folder.text(VALIDATION, json.dumps(plain(tables.as_json(study)), indent=2, allow_nan=False) + "\n")
    for case in study.cases:
        folder.text(f"latency_{_file_name(case)}.yaml", latency_file(case.step_model.content))
    pictures = {}
    if output["figures"] or output["report"]:
        pictures = {name: figure for case in study.cases for name, figure in _figures(case)}
    if output["figures"]:
        for name, figure in pictures.items():
            with folder.writing(f"{files.FIGURES}/{name}.png") as handle:
                style.save_png(figure, handle)
    if output["report"]:
        folder.text(files.REPORT, html(study, pictures, config, command))


def _figures(case: Case) -> Iterator[tuple[str, Figure]]:
    """By the names of their files."""
    yield f"parity_{_file_name(case)}", parity_figure([case])
    yield f"load_{_file_name(case)}", load_figure([case])
    yield f"residuals_{_file_name(case)}", residuals_figure(case.step_model.model, case.steps)


def _file_name(case: Case) -> str:
    return case.runs[0].name


def html(study: Study, pictures: dict[str, Figure], config: dict[str, Any], command: str) -> str:
    """The page: verdict, what is wrong, the tables, a section a prediction."""
    title = "vLLM and the simulator"
    body = [f"<h1>{title}</h1>", f"<p>{page.escape(tables.verdict(study))}</p>"]
    body.append(page.alarm([*study.wrong(), *tables.reasons(study), *study.not_predicted]))
    body += [page.heading("Lockstep"), page.table(tables.LOCKSTEP_HEAD, tables.lockstep_rows(study))]
    body += [page.preformatted(text) for text in tables.differences(study)]
    if study.cases:
        body += [
            page.heading("Free-running"),
            page.table(*tables.free_table(study), sortable=False),
            f"<p>{page.escape(tables.LEGEND)}.</p>",
        ]
        body += [page.heading("Step by step"), page.table(tables.STEP_HEAD, tables.step_rows(study))]
        body.append(f"<p>{page.escape(' '.join(tables.STEP_LEGEND))}.</p>")
    for case in study.cases:
        body.append(page.heading(f"{case.name}, load {tables.load_words(case).strip()}"))
        for kind, caption in CAPTIONS.items():
            if (name := f"{kind}_{_file_name(case)}") in pictures:
                body.append(page.picture(style.to_svg(pictures[name], name), caption))
        body.append(page.card("Latency model", page.facts(plain(case.step_model.model.describe()).items())))
    body += [page.heading("What was compared"), page.table(["run", "folder", "vLLM", "settings"], map(_about, study.runs))]
    body += [page.heading("How it was made"), page.preformatted(command)]
    body.append(page.folded("The whole configuration", page.preformatted(yaml_text(config))))
    return page.document(title, body)


def _about(run: Recording) -> list[str]:
    settings = run.settings
    limits = settings.limits
    words = [
        f"{limits.num_blocks:,} blocks of {limits.block_size}, {limits.max_num_seqs} seats, "
        f"{limits.max_num_batched_tokens:,} tokens a step",
        f"policy {settings.policy['name']}",
        *(f"{name} {value}" for name, value in settings.about.items() if name != "vllm"),
    ]
    if limits.enable_prefix_caching:
        words.append("prefix caching")
    return [run.name, run.folder, settings.vllm or "not said", "; ".join(words)]


def show(study: Study) -> None:
    """The same on the terminal."""
    print(tables.as_text(tables.LOCKSTEP_HEAD, tables.lockstep_rows(study)))
    for text in tables.differences(study):
        print(text)
    if study.cases:
        print(f"\n{tables.as_text(tables.STEP_HEAD, tables.step_rows(study))}")
        print(*tables.STEP_LEGEND, sep="\n")
        print(f"\n{tables.as_text(*tables.free_table(study))}")
        print(f"{tables.LEGEND}\n")
    for text in study.wrong():
        print(f"WRONG: {text}")
    for text in (*tables.reasons(study), *study.not_predicted):
        print(f"note: {text}")
    print(tables.verdict(study))
