"""The Azure CSV of 2023 and 2024, with all that their files do."""

import csv
from datetime import datetime

import pytest

from tests.shared import shared
from traces import open_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def _open(tmp_path, text, **options):
    path = tmp_path / "azure.csv"
    path.write_bytes(text.encode())
    return open_trace("file", str(path), **options)


def test_trc_07_zero_outputs_disorder_seven_digits_crlf_and_blank_lines(tmp_path):
    """trc-07: 0-output rows dropped with count, stable sort by time, no time lost, sum of tokens preserved."""
    rows = [
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,396,109",
        "2023-11-16 18:15:46.6805901,10,1",  # 100 ns after the first, out of order
        "2023-11-16 18:15:50.9951690,20,2",  # the same time as the second: stays behind it
        "2023-11-16 18:15:51.0000000,30,0",
        "2023-11-16 18:15:52,40,4",
    ]
    trace = _open(tmp_path, HEADER.replace("\n", "\r\n") + "\r\n".join(rows) + "\r\n\r\n")
    assert trace.prompt_tokens.tolist() == [374, 10, 396, 20, 40]
    assert trace.arrival_s.tolist() == pytest.approx([0, 1e-7, 4.314579, 4.314579, 5.31941], abs=1e-12)
    assert trace.prompt_tokens.sum() + trace.output_tokens.sum() == 374 + 396 + 10 + 20 + 40 + 44 + 109 + 1 + 2 + 4
    assert trace.report.read == 6 and trace.report.dropped == {"no output tokens": 1}
    assert any(note.startswith("1 requests arrive before") for note in trace.report.notes)


def test_the_times_of_2024_have_a_zone_and_sometimes_a_fraction(tmp_path):
    rows = [
        "2024-05-10 00:00:00+00:00,1,1",
        "2024-05-10 00:00:00.001163+00:00,2,1",
        "2024-05-10T00:00:01Z,3,1",
        "2024-05-10 02:00:02.5+02:00,4,1",
        "2024-05-09 18:30:03-0530,5,1",
    ]
    assert _open(tmp_path, HEADER + "\n".join(rows)).arrival_s.tolist() == [0, 0.001163, 1, 2.5, 3]


@pytest.mark.parametrize(
    "row, problem",
    [
        ("2023-11-16 18:15,374,44", ":3: TIMESTAMP is '2023-11-16 18:15', must be like"),
        ("2023-13-16 18:15:46.68,374,44", ":3: TIMESTAMP is"),
        ("NaT,374,44", ":3: TIMESTAMP is"),
        (",374,44", ":3: TIMESTAMP is"),
        ("2023-11-16 18:15:46.68,0,44", ":3: ContextTokens is 0, must be at least 1"),
        ("2023-11-16 18:15:46.68,,44", ":3: ContextTokens is missing"),
        ("2023-11-16 18:15:46.68,3x,44", ":3: ContextTokens is '3x', must be an integer"),
        ("2023-11-16 18:15:46.68,374,-1", ":3: GeneratedTokens is -1, must be at least 0"),
        ("2023-11-16 18:15:46.68,374,1.5", ":3: GeneratedTokens is '1.5', must be an integer"),
        ("2023-11-16 18:15:46.68,374,99999999999999999999999", ":3: GeneratedTokens is '99999999999999999999999', must"),
        ("2023-11-16 18:15:46.68,374", ":3: 2 fields, the header has 3"),
        ("2023-11-16 18:15:46.68,374,44,1", ":3: 4 fields"),
    ],
)
def test_a_malformed_row_is_named_by_line_or_dropped_with_count(tmp_path, row, problem):
    text = HEADER + "2023-11-16 18:15:46.68,374,44\n" + row + "\n2023-11-16 18:15:47.68,7,8\n"
    with pytest.raises(ValueError) as caught:
        _open(tmp_path, text)
    assert f"azure.csv{problem}" in str(caught.value) and "\n" not in str(caught.value)
    trace = _open(tmp_path, text, on_error="skip")
    assert trace.prompt_tokens.tolist() == [374, 7] and trace.arrival_s.tolist() == [0, 1]
    assert trace.report.dropped == {"malformed rows": 1}
    assert trace.report.notes[0].startswith("the first malformed row: ") and f"azure.csv{problem}" in trace.report.notes[0]


def test_nothing_left_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no rows below the header"):
        _open(tmp_path, HEADER)
    with pytest.raises(ValueError, match="no requests left of 2 rows: 1 malformed rows, 1 no output tokens"):
        _open(tmp_path, HEADER + "x,1,1\n2023-11-16 18:15:46,1,0\n", on_error="skip")


def test_the_real_file_against_an_independent_reading():
    path = shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    trace = open_trace("file", str(path))
    assert trace.prompt_tokens.tolist() == [int(row["ContextTokens"]) for row in rows]
    assert trace.output_tokens.tolist() == [int(row["GeneratedTokens"]) for row in rows]
    first = datetime.fromisoformat(rows[0]["TIMESTAMP"][:-1])
    seconds = [(datetime.fromisoformat(row["TIMESTAMP"][:-1]) - first).total_seconds() for row in rows]
    assert trace.arrival_s.tolist() == pytest.approx(seconds, abs=1.1e-6)  # datetime has six digits of the seven
    assert trace.name == "AzureLLMInferenceTrace_conv" and not trace.report.dropped
