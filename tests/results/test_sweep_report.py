"""report.html of a sweep: its jobs, its figures over what was swept, and what failed."""

import pytest

from tests.results.parsed import Parsed
from twin.results.sweep_report import sweep_html

EVIL = "</script><script>alert(1)</script>"


def job(policy: str, rate: float, seats: int = 256, **figures) -> dict:
    default = {"ttft_s_p99": 0.5 * rate, "e2e_s_p99": 2.0 * rate, "request_throughput": 0.9 * rate, "tpot_s_p99": 0.01,
               "slo_attainment": None, "goodput": None, "saturated": rate > 8}  # fmt: skip
    name = f"policy={policy},trace.rate={rate:g},scheduler.max_num_seqs={seats}"
    return {"job": name, "status": "finished", "reason": None, "policy": policy, "trace.rate": rate,
            "scheduler.max_num_seqs": seats} | default | figures  # fmt: skip


def parsed(swept, rows) -> Parsed:
    return Parsed(sweep_html("Sweep rates", swept, rows))


def test_lines_go_over_the_numbers_that_were_swept_a_line_each_for_the_others():
    page = parsed(["policy", "trace.rate"], [job(policy, rate) for policy in ("fcfs", "sjf") for rate in (16.0, 4.0, 8.0)])
    panels = {panel["title"]: panel for panel in page.panels()}
    lines = {series["name"]: series for series in panels["TTFT p99"]["series"] if series["kind"] == "line"}
    assert list(lines) == ["fcfs", "sjf"] and lines["fcfs"]["x"] == [4, 8, 16] and lines["fcfs"]["y"] == [2, 4, 8]
    tpot = panels["TPOT p99"]
    assert tpot["y"]["label"] == "ms" and tpot["series"][0]["y"] == [10, 10, 10]
    load = panels["Latency over throughput"]["series"][0]
    assert load["x"] == pytest.approx([3.6, 7.2, 14.4]) and load["y"] == [8, 16, 32]
    rings = [series for series in panels["TTFT p99"]["series"] if series["colour"] == "red"]
    assert [ring["x"] for ring in rings] == [[16], [16]] and rings[0]["group"] == "fcfs"
    assert "goodput" not in panels  # no job has one


def test_the_table_has_a_row_a_job_with_the_figures():
    page = parsed(["policy", "trace.rate"], [job("fcfs", 4.0, preemptions=0), job("fcfs", 16.0, preemptions=1234)])
    (head, *rows) = page.tables[0]
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    assert [cell["TTFT p99 (s)"] for cell in cells] == ["2.000", "8.000"]
    assert [cell["preemptions"] for cell in cells] == ["0", "1,234"]
    assert [cell["saturated"] for cell in cells] == ["no", "yes"]


def test_two_options_of_numbers_make_a_map_whose_best_cell_is_marked():
    rows = [job("fcfs", rate, seats) for rate in (4.0, 8.0, 16.0) for seats in (64, 128) if (rate, seats) != (8.0, 128)]
    page = parsed(["trace.rate", "scheduler.max_num_seqs"], rows)
    maps = {panel["title"]: panel["heat"] for panel in page.panels() if panel["heat"]}
    assert maps["TTFT p99 (s)"] == {
        "x": ["4", "8", "16"], "y": ["64", "128"], "values": [[2, 4, 8], [2, None, 8]], "unit": "s", "marked": [0, 0],
    }  # fmt: skip
    assert maps["throughput (requests/s)"]["marked"] == [0, 2]  # the more the better


def test_options_without_numbers_make_bars():
    page = parsed(["policy"], [job("fcfs", 4.0), job("sjf", 4.0, ttft_s_p99=1.0)])
    bars = next(panel for panel in page.panels() if panel["title"] == "TTFT p99")["series"][0]
    assert (bars["kind"], bars["x"], bars["y"]) == ("bars", ["fcfs", "sjf"], [2, 1])


def test_intervals_of_several_seeds_are_bands_and_half_widths():
    rows = [job("fcfs", rate, ttft_s_p99_ci95=0.25) for rate in (4.0, 8.0)]
    page = parsed(["trace.rate"], rows)
    line = next(panel for panel in page.panels() if panel["title"] == "TTFT p99")["series"][0]
    assert (line["low"], line["high"]) == ([1.75, 3.75], [2.25, 4.25])
    assert "2.000 ± 0.25" in page.tables[0][1]


def test_what_failed_is_listed_with_why():
    failed = {"job": "policy=bad", "status": "failed", "reason": EVIL, "policy": "bad", "trace.rate": 4.0}
    page = parsed(["policy", "trace.rate"], [job("fcfs", 4.0), failed])
    assert page.tables[-1] == [["job", "why"], ["policy=bad", EVIL]] and len(page.tables[0]) == 2
    assert len(parsed(["policy"], [failed]).tables) == 2  # all of them failed


def test_too_many_lines_are_said():
    rows = [job(f"policy{number}", rate) for number in range(20) for rate in (4.0, 8.0)]
    assert "The first 16 of 20 combinations are drawn" in sweep_html("Sweep", ["policy", "trace.rate"], rows)


def test_nothing_that_comes_in_is_markup():
    assert len(parsed([EVIL, "policy"], [job(EVIL, 4.0, **{EVIL: 1.0}), job("x", 4.0, **{EVIL: 2.0})]).scripts) == 2
