"""Files that cannot be read at all, and how a format is found."""

import gzip
import os

import pytest

from traces import open_trace

OWN = "arrival_s,prompt_tokens,output_tokens\n0,5,6\n1.5,7,8\n"


def _problem(path, **options):
    with pytest.raises(ValueError) as caught:
        open_trace("file", str(path), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_file_a_folder_an_empty_file(tmp_path):
    assert "there is no such file" in _problem(tmp_path / "none.csv")
    assert "is a folder" in _problem(tmp_path)
    (tmp_path / "empty.csv").write_bytes(b"\n \n")
    assert "is empty" in _problem(tmp_path / "empty.csv")


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"arrival_s,prompt_tokens,output_tokens\n0,1,1\n\xff\xfe\x00", ":3: neither text (UTF-8) nor Parquet"),
        (b"\x00\x01\x02", ":1: neither text"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b"PAR1broken", "cannot be read as Parquet"),
        (b"name,age\nx,1\n", ":1: begins like no known format ('name,age'); known are azure: "),
        (b'{"a": 1}\n', "begins like no known format"),
        (b"{broken\n", "begins like no known format"),
        (b'"unclosed\n', "begins like no known format"),
    ],
)
def test_garbage_is_named(tmp_path, data, problem):
    (tmp_path / "t.bin").write_bytes(data)
    assert problem in _problem(tmp_path / "t.bin")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who may be refused")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "t.csv").write_text(OWN)
    (tmp_path / "t.csv").chmod(0)
    assert "cannot be read" in _problem(tmp_path / "t.csv")


def test_packed_files_and_byte_order_marks_are_read(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + OWN.encode()))
    assert open_trace("file", str(tmp_path / "t.csv.gz")).prompt_tokens.tolist() == [5, 7]


def test_formats_by_name(tmp_path):
    (tmp_path / "t.csv").write_text(OWN)
    assert len(open_trace("file", str(tmp_path / "t.csv"), format="csv")) == 2
    assert "there is no trace.format=csvv; there are azure, " in _problem(tmp_path / "t.csv", format="csvv")
    assert ":1: no column TIMESTAMP" in _problem(tmp_path / "t.csv", format="azure")
    assert "is not Parquet" in _problem(tmp_path / "t.csv", format="parquet")
    assert ":1: not JSON" in _problem(tmp_path / "t.csv", format="mooncake")
    assert "is not an option of the format csv: its own are time_unit" in _problem(tmp_path / "t.csv", spread_ties=True)


def test_a_file_given_a_rate_is_rescaled_after_the_number_and_before_the_duration(tmp_path):
    rows = [f"{second},1,1" for second in range(11)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    trace = open_trace("file", str(tmp_path / "t.csv"), rate=2, num_requests=5, duration_s=1.2)
    assert trace.arrival_s.tolist() == [0, 0.5, 1]
