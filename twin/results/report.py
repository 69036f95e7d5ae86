"""report.html: a run on one page that needs nothing beside it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from twin.results import page, style
from twin.results.columns import FINISHED, Table
from twin.results.figures import figures
from twin.results.folder import yaml_text
from twin.results.presentation import NOTHING, STATISTICS, number, overview

CAPTIONS = {
    "latency": "Cumulative distributions over all requests that have the quantity.",
    "load": "Over time. Of a long run the lines are means over short spans, the bands reach from the least to the "
    "greatest value.",
}
WORST = (("ttft_s", "Longest to their first token"), ("tpot_s", "Slowest at their tokens"))
WORST_ROWS = 8


def report_html(config: Mapping[str, Any], summary: Mapping[str, Any], requests: Table, steps: Table) -> str:
    """The page, from what a run folder holds (see `twin.results.load`).

    `config["provenance"]` (see `twin.results.save`) says how the run was made; what it lacks is said to be unknown.
    """
    made = config.get("provenance") or {}
    title = _title(config)
    pictures = figures(requests, steps, config.get("slo"))
    return page.document(title, [
        f"<h1>{page.escape(title)}</h1>",
        f"<p>{page.escape(_subtitle(summary))}</p>",
        page.alarm(_warnings(made, summary)),
        *_numbers(summary),
        page.heading("Figures"),
        *(page.picture(style.to_svg(figure, name), CAPTIONS[name]) for name, figure in pictures.items()),
        *_requests(requests),
        page.heading("How it was made"),
        page.preformatted(made.get("command") or "the command line was not recorded"),
        *_making(made),
        page.folded("The whole configuration",
                    page.preformatted(yaml_text({key: value for key, value in config.items() if key != "provenance"}))),
    ])  # fmt: skip


def _title(config: Mapping[str, Any]) -> str:
    names = [_name(config.get(key)) for key in ("policy", "trace", "model", "gpu")]
    policy, trace, *machine = names
    return f"{policy or 'a policy'} on {trace or 'a trace'}" + "".join(f" · {name}" for name in machine if name)


def _name(group: Any) -> str:
    if isinstance(group, Mapping) and group.get("name") == "file" and group.get("path"):
        return PurePath(str(group["path"])).name
    return str(group.get("name") or "") if isinstance(group, Mapping) else str(group or "")


def _subtitle(summary: Mapping[str, Any]) -> str:
    return (f"{number(summary.get('requests'))} requests in {number(summary.get('duration_s'))} s, "
            f"percentiles by numpy's {summary.get('percentile_method', 'linear')} method")  # fmt: skip


def _warnings(made: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    warnings = [str(text) for text in made.get("warnings") or ()]
    if summary.get("complete") is False:
        warnings.insert(0, "The run is not complete: it was interrupted, and speaks of what was done until then.")
    if summary.get("saturated"):
        warnings.append("The system was saturated: latencies grow with the length of the run and mean little.")
    return warnings


def _numbers(summary: Mapping[str, Any]) -> list[str]:
    view = overview(summary)
    latencies = [(f"{row.name} ({row.unit})", *row.cells) for row in view.latency]
    by_length = sorted(view.facts(), key=lambda group: -len(group[1]))  # tall cards beside tall ones
    cards = [page.card(name, page.facts(facts)) for name, facts in by_length]
    return [
        f'<div class="cards">{"".join(cards)}</div>',
        page.heading("Latency"),
        page.table(("", *STATISTICS, "n"), latencies),
    ]


def _requests(requests: Table) -> list[str]:
    parts = []
    for key, name in WORST:
        known = np.flatnonzero(~np.isnan(requests[key]))
        worst = known[np.argsort(-requests[key][known], kind="stable")][:WORST_ROWS]
        if len(worst):
            parts += [page.heading(f"Worst requests: {name[0].lower()}{name[1:]}"), _listed(requests, worst)]
    lost = Counter(
        (str(status), str(reason or NOTHING))
        for status, reason in zip(requests["status"], requests["reason"], strict=True) if status != FINISHED
    )  # fmt: skip
    if lost:
        rows = [(f"{status}: {reason}", number(count)) for (status, reason), count in lost.most_common(20)]
        parts += [page.heading("Not finished"), page.table(("what became of them", "requests"), rows)]
    return parts


def _listed(requests: Table, rows: np.ndarray) -> str:
    head = ("request", "user", "arrival (s)", "prompt", "generated", "cached", "queue (s)", "TTFT (s)", "TPOT (ms)",
            "end to end (s)", "preempted")  # fmt: skip
    return page.table(head, [_row({name: column[row] for name, column in requests.items()}) for row in rows])


def _row(request: Mapping[str, Any]) -> tuple[str, ...]:
    def time(value: float, factor: float = 1.0) -> str:
        return NOTHING if np.isnan(value) else number(float(value) * factor)

    return (str(request["request_id"]), str(request["user"] or NOTHING), time(request["arrival_s"]),
            *(number(int(request[key])) for key in ("prompt_tokens", "generated_tokens", "cached_tokens")),
            time(request["queue_s"]), time(request["ttft_s"]), time(request["tpot_s"], 1e3), time(request["e2e_s"]),
            number(int(request["preemptions"])))  # fmt: skip


def _making(made: Mapping[str, Any]) -> list[str]:
    titles = {"policy": "Policy", "trace": "Trace: what was read and dropped", "latency": "Step latency",
              "versions": "Versions"} | ({"engine": "Real engine"} if made.get("engine") else {})  # fmt: skip
    cards = [page.card(title, page.facts((str(name), value) for name, value in (made.get(key) or {}).items()) if
                       made.get(key) else "not recorded") for key, title in titles.items()]  # fmt: skip
    return [f'<div class="cards" style="margin-top:1rem">{"".join(cards)}</div>']
