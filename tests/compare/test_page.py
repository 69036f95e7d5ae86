"""report.html of a comparison: the table, the distributions, the curves over the load."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compare.folders import folder, sweep_folder
from tests.results.parsed import Parsed
from twin.cli.main import main


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(*words: str) -> Parsed:
    assert main(["compare", *words, "to=out", "warmup=none", "output.figures=false"]) == 0
    return Parsed(Path("out/report.html").read_text())


def test_the_table_is_that_of_the_comparison(capsys):
    """Request k takes 1 + k / 100 s under a, twice that under b: means 1.495 and 2.99."""
    latency_s = 1 + np.arange(100) / 100
    folder(Path("a"), latency_s, "fcfs")
    folder(Path("b"), 2 * latency_s, "sjf", config={"slo": {"e2e_s": 1.5}})
    page = compared("a", "b", "slo.e2e_s=1.5")
    (head, *rows) = page.tables[0]
    found = {(row[0], row[1]): row for row in rows}
    assert found["end to end, mean (s)", "fcfs"][2] == "1.495"
    assert found["end to end, mean (s)", "sjf"][2] == "2.990" and found["end to end, mean (s)", "sjf"][6] == "+100.0"
    assert found["end to end, mean (s)", "sjf"][-1] == "worse"
    verdicts = {(row["figure"], row["variant"]): row["verdict"] for row in
                json.loads(Path("out/comparison.json").read_text())["scenes"][0]["figures"]}  # fmt: skip
    assert sorted(row[-1] for row in rows) == sorted(verdicts.values())
    panel = next(panel for panel in page.panels() if panel["title"] == "End to end")
    a, b = panel["series"]
    assert (a["name"], b["name"]) == ("fcfs", "sjf")
    assert a["x"][-1] == pytest.approx(1.99) and b["x"][-1] == pytest.approx(3.98) and a["y"][-1] == 1.0
    assert [rule["x"] for rule in panel["rules"]] == [1.5]


def test_each_user_has_a_point_a_variant():
    users = {"requests": {"user": ["ann", "bob"] * 50}}
    folder(Path("a"), [1.0, 2.0] * 50, "fcfs", **users)
    folder(Path("b"), [2.0, 1.0] * 50, "sjf", **users)
    panel = next(panel for panel in compared("a", "b").panels() if panel["title"] == "Latency of each user")
    assert [(series["x"], series["y"]) for series in panel["series"]] == [
        (["ann", "bob"], [1000, 2000]), (["ann", "bob"], [2000, 1000]),
    ]  # fmt: skip


def test_a_sweep_over_rates_has_curves_and_the_knee():
    """At 1, 2 and 4 requests/s; e2e 1, 1.2 and 9 s. Power, throughput / latency, is greatest at 2."""
    jobs = {}
    for rate, latency in ((1.0, 1.0), (2.0, 1.2), (4.0, 9.0)):
        for policy, factor in (("fcfs", 1.0), ("sjf", 0.5)):
            name = f"{policy}{rate:g}"
            folder(Path("sweep") / name, np.full(100, latency * factor), policy, every_s=1 / rate,
                   config={"trace": {"name": "synthetic", "rate": rate}})  # fmt: skip
            jobs[name] = {"policy": policy, "trace.rate": rate}
    sweep_folder(Path("sweep"), jobs)
    panels = {panel["title"]: panel for panel in compared("sweep").panels()}
    lines = {series["name"]: series for series in panels["End to end, mean"]["series"] if series["kind"] == "line"}
    assert lines["fcfs"]["y"] == [1, 1.2, 9] and lines["sjf"]["y"] == [0.5, 0.6, 4.5]
    rings = [series["texts"] for series in panels["End to end, mean"]["series"] if series["size"] == 14]
    assert sorted(rings) == [["fcfs: knee at 2"], ["sjf: knee at 2"]]
    front = panels["Pareto front"]["series"]
    assert sum(len(series["x"]) for series in front if series["kind"] == "points") == 6


def test_the_same_comparison_gives_the_same_page_and_none_if_it_is_not_asked_for():
    folder(Path("a"), np.ones(50), "fcfs")
    folder(Path("b"), np.full(50, 2.0), "sjf")
    compared("a", "b")
    first = Path("out/report.html").read_bytes()
    compared("a", "b")
    assert Path("out/report.html").read_bytes() == first
    assert main(["compare", "a", "b", "to=out", "output.figures=false", "output.report=false"]) == 0
    assert not Path("out/report.html").exists()
