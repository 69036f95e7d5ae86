"""Whatever is in a file, there comes a trace or one line that says where what is wrong."""

import gzip
import json
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.readers.samples import PACKED, SAMPLES
from traces import Trace, open_trace
from traces.readers import READERS, source

ODD = [
    b"NaN", b"-1", b"1e999", b"99999999999999999999", b"0", b"", b"\x00", b"\xff", b'"', b"[", b"{", b"]", b"}", b",", b"\n",
    b"\r", b"null", b"true", b"[[", b"\\ud800", b"1e308", b"-0.0", b"0x10", b'"x"', b"[]", b"{}", b"1_0", b" ", b"9" * 400,
    b"9" * 5000,
    "٣".encode(), b"[" * 3000,
]  # fmt: skip


@st.composite
def _damage(draw, data: bytes) -> bytes:
    """The bytes with a few places cut out, overwritten, doubled, or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, max(len(data) - 1, 0)))
        end = min(len(data), begin + draw(st.sampled_from([0, 1, 2, 5, 20, 10_000])))
        kind = draw(st.sampled_from(["odd", "odd", "number", "cut", "double", "binary"]))
        if kind == "number":  # the next number becomes something else
            digits = next((place for place in range(begin, len(data)) if data[place : place + 1].isdigit()), begin)
            stop = next((place for place in range(digits, len(data)) if not data[place : place + 1].isdigit()), len(data))
            data = data[:digits] + draw(st.sampled_from(ODD)) + data[stop:]
        elif kind == "odd":
            data = data[:begin] + draw(st.sampled_from(ODD)) + data[min(end, begin + 20) :]
        elif kind == "cut":
            data = data[:begin] + data[end:]
        elif kind == "double":
            data = data[:end] + data[begin:]
        else:
            data = data[:begin] + draw(st.binary(max_size=8)) + data[min(end, begin + 5) :]
    return data


def _trace_or_one_line(path, **options):
    try:
        trace = open_trace("file", str(path), **options)
    except ValueError as problem:
        assert "\n" not in str(problem) and path.name in str(problem), str(problem)
        return None
    assert isinstance(trace, Trace) and len(trace) and np.isfinite(trace.arrival_s).all()
    if trace.prefix is not None:
        assert (trace.prefix.shareable_tokens() <= trace.prompt_tokens).all()
    if trace.session is not None:
        assert trace.turn is None or (trace.turn >= 0).all()
    return trace


def test_there_is_a_sample_of_each_format_and_it_is_recognised(tmp_path):
    assert set(SAMPLES) == set(READERS) - {"servegen"}
    for name, data in SAMPLES.items():
        path = tmp_path / "sample"
        path.write_bytes(data)
        trace = _trace_or_one_line(path)
        assert trace is not None and f"({READERS[name].about})" in trace.report.source, name
        assert _trace_or_one_line(path, format=name) is not None


@pytest.mark.parametrize("name", SAMPLES)
@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(data=st.data())
def test_a_damaged_file_gives_a_trace_or_one_line_that_names_it(name, tmp_path, data):
    path = tmp_path / "damaged.bin"
    path.write_bytes(data.draw(_damage(SAMPLES[name])))
    _trace_or_one_line(path)
    _trace_or_one_line(path, format=name, on_error="skip")


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(data=st.data())
def test_a_damaged_packed_file(tmp_path, data):
    path = tmp_path / "damaged.csv.gz"
    path.write_bytes(data.draw(_damage(PACKED)))
    _trace_or_one_line(path)


def test_any_reader_may_be_given_any_file(tmp_path):
    for name, sample in SAMPLES.items():
        path = tmp_path / f"{name}.bin"
        path.write_bytes(sample)
        for reader in READERS:
            _trace_or_one_line(path, format=reader)
    for reader in READERS:
        with pytest.raises(ValueError, match=tmp_path.name):
            open_trace("file", str(tmp_path), format=reader)


@pytest.mark.parametrize("size", [20, -9])
def test_a_packed_file_that_is_cut_off_is_named_with_the_line(tmp_path, size):
    rows = "\n".join(f"{second},{second % 97 + 1},5" for second in range(400_000))
    packed = gzip.compress(f"Timestamp,Request tokens,Response tokens\n{rows}\n".encode(), 1)
    (tmp_path / "t.csv.gz").write_bytes(packed[:size])
    with pytest.raises(ValueError) as caught:
        open_trace("file", str(tmp_path / "t.csv.gz"))
    assert "cannot be read: Compressed file ended" in str(caught.value)
    if size < 0:
        line = int(str(caught.value).split("t.csv.gz:")[1].split(":")[0])
        assert 200_000 < line <= 400_001


@pytest.mark.parametrize("filler", [b"\n", b"0,1,1\n", b"x", b"0,"])
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, filler):
    monkeypatch.setattr(source, "UNPACKED_FREE", 4 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = filler * ((1 << 20) // len(filler))
    data = packer.compress(b"arrival_s,prompt_tokens,output_tokens\n")
    data += b"".join(packer.compress(block) for _ in range(64)) + packer.flush()
    (tmp_path / "bomb.csv.gz").write_bytes(data)
    with pytest.raises(ValueError, match="bomb.csv.gz:[0-9]+: unpacks to more than [0-9,]+ bytes"):
        open_trace("file", str(tmp_path / "bomb.csv.gz"), on_error="skip")


@pytest.mark.parametrize("begin", ["arrival_s,prompt_tokens,output_tokens\n", '{"arrival_s": 0, "prompt_tokens": '])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, begin):
    monkeypatch.setattr(source, "LINE_CHARACTERS", 2 << 20)
    (tmp_path / "t").write_text(begin + "1" * (5 << 20))
    with pytest.raises(ValueError, match="the line has more than 2,097,152 characters"):
        open_trace("file", str(tmp_path / "t"))


def test_damage_far_down_is_named_by_its_line(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{second},{second % 97 + 1},5" for second in range(200_000)]
    header = "arrival_s,prompt_tokens,output_tokens"
    for bad, problem in [
        ("7,x,5", "prompt_tokens is 'x'"), ("7,8", "2 fields, the header has 3"),
        ('7,"8,5', "2 fields"), ("7,8,5,9", "4 fields"),
    ]:  # fmt: skip
        changed = [*rows[:150_000], bad, *rows[150_000:]]
        path.write_text("\n".join([header, *changed]))
        with pytest.raises(ValueError, match=f"t.csv:[0-9]+: .*{problem}|t.csv:150002: .*{problem}|field larger") as caught:
            open_trace("file", str(path))
        if '"' not in bad:
            assert "t.csv:150002: " in str(caught.value)
            assert len(open_trace("file", str(path), on_error="skip")) == 200_000


def test_quotes_and_blank_lines_far_down_do_not_change_what_is_read(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{second},{second % 97 + 1},5,id{second}" for second in range(150_000)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,request_id", *rows]))
    plain = open_trace("file", str(path))
    rows[100_000] = '100000,"91",5,"id100000"\n\n'
    path.write_text("\r\n".join(["arrival_s,prompt_tokens,output_tokens,request_id", *rows]))
    odd = open_trace("file", str(path))
    np.testing.assert_array_equal(odd.prompt_tokens, plain.prompt_tokens)
    assert odd.request_id == plain.request_id


def test_columns_that_come_and_go_in_a_long_file(tmp_path, monkeypatch):
    monkeypatch.setattr("traces.readers.cells.OBJECTS_CHARACTERS", 100)  # one or two lines at once
    rows: list[dict] = [{"arrival_s": second, "prompt_tokens": 40, "output_tokens": 2} for second in range(9)]
    rows[4] |= {"session": "s", "think_s": 2.5, "prefix_hashes": [1, 2], "hash_block_tokens": 16}
    rows[7] |= {"priority": 3, "prefix_hashes": [1, "x"], "hash_block_tokens": 16}
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    trace = open_trace("file", str(tmp_path / "t.jsonl"))
    assert trace.session == ["", "", "", "", "s", "", "", "", ""]
    assert trace.priority.tolist() == [0] * 7 + [3, 0]
    assert trace.prefix.shareable_tokens().tolist() == [0, 0, 0, 0, 16, 0, 0, 16, 0]
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(trace.think_s)), [4])
