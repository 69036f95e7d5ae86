"""report.html: one file, safe, and complete."""

import re

import numpy as np
import pytest

from tests.results.parsed import Parsed
from tests.results.records import queue, two
from twin.results.report import report_html
from twin.results.save import provenance
from twin.results.summary import summarize

EVIL = '<script>alert("x")</script>&'
CONFIG = {
    "policy": {"name": "fcfs", "note": EVIL},
    "trace": {"name": "chat"},
    "provenance": provenance(
        command=f"twin run policy=fcfs trace.path='{EVIL}'",
        policy={"class": "Fcfs", "file": "policies/fcfs.py", "sha256": "ab12", "description": EVIL},
        versions={"twin": "0.1"},
        trace={"read": 12, "kept": np.int64(10), "dropped": {"no output": 2}},
        warnings=[EVIL],
    ),
}


def page(made, config=CONFIG) -> str:
    return report_html(config, summarize(made), made.requests, made.steps)


def test_nothing_that_comes_in_is_markup():
    made = queue(60)
    made.requests["user"][:] = EVIL
    made.requests["request_id"] = np.array([f"{EVIL}{row}" for row in range(60)], dtype=object)
    text = page(made)
    parsed = Parsed(text)
    assert EVIL not in text and text.count("&lt;script&gt;") > 5
    assert len(parsed.scripts) == 2 and not any("alert" in script for script in parsed.scripts)
    hovered = [words for panel in parsed.panels() for series in panel["series"] for words in series.get("texts", ())]
    assert any(EVIL in words for words in hovered)  # in the data it is a text like any other


def test_ids_are_unique():
    ids = [attributes["id"] for _, attributes in Parsed(page(queue(60))).tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_it_says_how_the_run_was_made_and_what_was_lost():
    text = page(two())
    for expected in ("policies/fcfs.py", "ab12", "no output: 2", "rejected: needs 102 blocks, the pool has 16",
                     "twin run policy=fcfs"):  # fmt: skip
        assert expected in text, expected


def test_a_run_that_was_interrupted_says_so():
    made = two()
    made.complete = False
    assert "not complete" in page(made)


def test_a_folder_that_tells_less_still_has_a_report():
    assert "not recorded" in page(two(), {"policy": "fcfs"})


def test_the_whole_configuration_is_there():
    text = page(two())
    assert re.search(r"<pre>policy:\n  name: fcfs", text)


def test_the_latencies_are_those_of_the_summary():
    made = queue(500)
    summary = summarize(made)
    rows = {row[0]: row[1:] for row in Parsed(page(made)).tables[0][1:]}
    for name, key, factor in (("time to first token (s)", "ttft_s", 1), ("time per output token (ms)", "tpot_s", 1e3),
                              ("inter-token latency (ms)", "itl_s", 1e3), ("end to end (s)", "e2e_s", 1)):  # fmt: skip
        wanted = [summary[f"{key}_{each}"] * factor for each in ("mean", "p50", "p90", "p95", "p99")]
        assert [float(cell.replace(",", "")) for cell in rows[name][:5]] == pytest.approx(wanted, rel=6e-3)
        assert int(rows[name][5].replace(",", "")) == summary[f"{key}_n"]


def test_a_small_run_lists_every_request():
    parsed = Parsed(page(two()))
    listed = next(table for table in parsed.tables if table[0][0] == "request")
    assert [(row[0], row[2], row[7]) for row in listed[1:]] == [
        ("A", "0", "1.000"), ("B", "0.5000", "1.500"), ("C", "0.5000", "–"),
    ]  # fmt: skip


def test_of_a_long_run_the_slowest_are_listed_and_drawn():
    made = queue(5000)
    parsed = Parsed(page(made))
    slowest = np.argsort(-made.requests["ttft_s"])[:100]
    names = [str(made.requests["request_id"][row]) for row in slowest]
    assert [row[0] for row in parsed.tables[1][1:]] == names[:8]
    drawn = next(panel for panel in parsed.panels() if panel["title"] == "Time to first token by arrival")
    told = {text.partition(":")[0] for series in drawn["series"] for text in series["texts"]}
    assert told.issuperset(names) and len(told) <= 2000


def test_the_figures_say_what_the_tables_say():
    """Steps [0, 1], [1, 2], [2, 3]: 4, 9, 0 of 16 blocks after them; 16 + 0, 16 + 1, 0 + 2 tokens in them."""
    panels = {panel["title"]: panel for panel in Parsed(page(two())).panels()}
    ttft = panels["Time to first token"]["series"][0]
    assert (ttft["x"], ttft["y"]) == ([1.0, 1.0, 1.5], [0.0, 0.5, 1.0])
    blocks = panels["KV blocks"]["series"][0]
    assert list(zip(blocks["x"], blocks["y"], strict=True)) == [(0, 0), (1, 4 / 16), (2, 9 / 16), (3, 9 / 16), (3, 0)]
    counts = {series["name"]: list(zip(series["x"], series["y"], strict=True)) for series in panels["Requests"]["series"]}
    assert counts["waiting"] == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 0), (3, 0)]
    tokens = {series["name"]: series for series in panels["Tokens a step"]["series"]}
    assert tokens["prefill tokens"]["y"] == [0, 16, 16, 16, 0, 0]
    assert tokens["decode tokens"]["x"] == [0, 1, 1, 2, 2, 3, 3]
