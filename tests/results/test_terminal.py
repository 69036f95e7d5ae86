"""The summary on the terminal."""

import io

import pytest
from rich.console import Console

from tests.results.records import NAN, queue, record, requests, two
from twin.results.presentation import aligned, number
from twin.results.summary import summarize
from twin.results.terminal import print_summary, summary_markdown


def printed(made, **slo) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_summary(summarize(made, slo=slo), title="fcfs on chat", console=console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_it_fits_into_80_columns_and_cuts_nothing():
    text = printed(queue(12_000, rate=6.2), ttft_s=1.0)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    assert "12,000" in text and "met the SLO" in text


def test_long_runs_and_long_waits_are_not_cut_either():
    summary = summarize(two()) | {"itl_s_n": 1_234_567_890, "e2e_s_p99": 123_456.7, "normalized_latency_s_p99": 1132.7612}
    console = Console(file=io.StringIO(), width=80)
    print_summary(summary, console=console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= 80 for line in lines) and not any("…" in line for line in lines)
    assert next(line for line in lines if "inter-token" in line).endswith(" 1,234,567,890")
    assert next(line for line in lines if "normalized s/token" in line).split()[-2] == "1,132.8"


def test_numbers_stand_under_each_other():
    lines = printed(two()).splitlines()
    head = next(line for line in lines if line.startswith("Latency"))
    row = next(line for line in lines if "time to first token" in line)
    assert [head.index(name) + len(name) for name in ("mean", "p99", " n")] == [
        row.index("1.250") + 5, row.rindex("1.495") + 5, len(row.rstrip()),
    ]  # fmt: skip


def test_one_token_requests_show_that_none_has_a_tpot():
    row = next(line for line in printed(record(requests())).splitlines() if "per output token" in line)
    assert row.split()[-6:] == ["–"] * 5 + ["0"]


def test_a_run_in_which_all_were_rejected():
    rows = requests(status=["rejected"], first_token_s=[NAN], finish_s=[0.0], generated_tokens=[0])
    assert "1 (0 finished, 1 rejected)" in printed(record(rows))


def test_an_interrupted_run_says_so():
    made = two()
    made.complete = False
    assert "NO: the run was interrupted" in printed(made)


def test_markdown_is_two_tables():
    lines = summary_markdown(summarize(two())).splitlines()
    assert lines[0] == "| latency | mean | p50 | p90 | p95 | p99 | n |"
    assert lines[2] == "| time to first token (s) | 1.250 | 1.250 | 1.450 | 1.475 | 1.495 | 2 |"
    assert "| requests | 3 (2 finished, 1 rejected) |" in lines


@pytest.mark.parametrize("value, text", [
    (None, "–"), (0, "0"), (0.0, "0"), (12345, "12,345"), (1234.56, "1,235"), (12.3456, "12.35"), (0.0123456, "0.01235"),
    (1.0, "1.000"), (1e-9, "1.000e-09"), (-3.14159, "-3.142"),
])  # fmt: skip
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


def test_a_row_has_equally_many_decimals():
    assert aligned([1.1288, 0.69391, None, 5.4451]) == ["1.129", "0.694", "–", "5.445"]
    assert aligned([1000.0, 1000.0]) == ["1,000", "1,000"]
    assert aligned([0.0123, 12.0]) == ["0.012", "12.000"]
    assert aligned([0.0, None]) == ["0", "–"]


def test_seconds_of_which_only_zeros_would_be_seen_are_milliseconds():
    """A tiny model on an engine: the first token after 3.125 ms, the last after 4.5."""
    lines = printed(record(requests(first_token_s=[0.003125], finish_s=[0.0045], generated_tokens=[1]))).splitlines()
    first, whole = (next(line for line in lines if name in line) for name in ("time to first token", "end to end"))
    assert first.split()[4:6] == ["ms", "3.125"] and whole.split()[3:5] == ["ms", "4.500"]
