"""report.html: a run on one page that needs nothing beside it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from twin.results import page
from twin.results.charts import chart
from twin.results.columns import FINISHED, Table
from twin.results.folder import yaml_text
from twin.results.presentation import NOTHING, STATISTICS, number, overview
from twin.results.run_charts import latency_panels, load_panels, request_panels

LATENCY = "Cumulative distributions over all requests that have the quantity."
LOAD = (
    "Over time. Of a long run the lines are means over short spans, the bands reach from the least to the greatest value; "
    "to zoom into one is to zoom into all."
)
REQUESTS = "A point is a request. Of a long run: the slowest of all, and an even sample of the others."
ALL_ROWS = 300  # requests: so many or fewer are listed one and all
WORST = (("ttft_s", "Longest to their first token"), ("tpot_s", "Slowest at their tokens"))
WORST_ROWS = 8


def report_html(config: Mapping[str, Any], summary: Mapping[str, Any], requests: Table, steps: Table) -> str:
    """The page, from what a run folder holds (see `twin.results.load`).

    `config["provenance"]` (see `twin.results.save`) says how the run was made; what it lacks is said to be unknown.
    """
    made = config.get("provenance") or {}
    title = title_of(config)
    return page.document(title, [
        f"<h1>{page.escape(title)}</h1>",
        f"<p>{page.escape(_subtitle(summary))}</p>",
        page.alarm(_warnings(made, summary)),
        *_numbers(summary),
        page.heading("Figures"),
        *_figures(config, requests, steps),
        *_requests(requests),
        page.heading("How it was made"),
        page.preformatted(made.get("command") or "the command line was not recorded"),
        *_making(made),
        page.folded("The whole configuration",
                    page.preformatted(yaml_text({key: value for key, value in config.items() if key != "provenance"}))),
    ])  # fmt: skip


def title_of(config: Mapping[str, Any]) -> str:
    """What was run, in a line."""
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
        page.cards(cards),
        page.heading("Latency"),
        page.table(("", *STATISTICS, "n"), latencies, sortable=False),
    ]


def _figures(config: Mapping[str, Any], requests: Table, steps: Table) -> list[str]:
    load, single = load_panels(steps), request_panels(requests)
    return [
        chart(latency_panels(requests, config.get("slo")), LATENCY, columns=3),
        *([chart(load, LOAD, link_x=True)] if load else []),
        *([chart(single, REQUESTS, columns=2, link_x=True)] if single else []),
    ]


def _requests(requests: Table) -> list[str]:
    parts = []
    if 0 < len(requests["request_id"]) <= ALL_ROWS:
        parts = [page.heading("All requests"), _listed(requests, np.arange(len(requests["request_id"])), tall=True)]
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


def _listed(requests: Table, rows: np.ndarray, tall: bool = False) -> str:
    head = ("request", "user", "arrival (s)", "prompt", "generated", "cached", "queue (s)", "TTFT (s)", "TPOT (ms)",
            "end to end (s)", "preempted")  # fmt: skip
    return page.table(head, [_row({name: column[row] for name, column in requests.items()}) for row in rows], tall=tall)


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
    return [page.cards(cards)]
