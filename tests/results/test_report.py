"""report.html: one file, safe, and complete."""

import re
from html.parser import HTMLParser

import numpy as np

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


class Balanced(HTMLParser):
    """Collects the tags; fails where one closes that was not the last to open."""

    VOID = {"meta", "br"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(made, config=CONFIG) -> str:
    return report_html(config, summarize(made), made.requests, made.steps)


def test_nothing_that_comes_in_is_markup():
    made = queue(60)
    made.requests["user"][:] = EVIL
    made.requests["request_id"] = np.array([f"{EVIL}{row}" for row in range(60)], dtype=object)
    text = page(made)
    assert "<script" not in text and text.count("&lt;script&gt;") > 5
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []


def test_the_page_needs_nothing_beside_it():
    parser = Balanced()
    parser.feed(page(queue(60)))
    for tag, attributes in parser.seen:
        assert tag not in ("script", "link", "img", "iframe")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith("#")


def test_ids_are_unique():
    parser = Balanced()
    parser.feed(page(queue(60)))
    ids = [attributes["id"] for _, attributes in parser.seen if "id" in attributes]
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
