"""What is written is read back bit for bit, or not written at all."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traces import Prefix, Trace, open_trace
from traces.write import write_trace

TOKENS = st.integers(1, 10**9)
TIME = st.floats(0, 1e6)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5) | st.sampled_from(['"', ",", "\n", "a\r\nb"])
OPTIONAL = {
    "max_tokens": st.just(-1) | TOKENS,
    "turn": st.integers(0, 9),
    "priority": st.integers(-9, 9),
    "n": st.integers(1, 9),
    "think_s": st.just(np.nan) | TIME,
    "user": TEXT,
    "session": TEXT,
}


@st.composite
def _traces(draw):
    count = draw(st.integers(1, 6))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    arrival_s = np.sort(np.array([0.0, *column(TIME)])[:count])
    columns = {name: column(values) for name, values in OPTIONAL.items() if draw(st.booleans())}
    columns = {name: v if name in ("user", "session") else np.array(v) for name, v in columns.items()}
    for name in ("deadline_s", "abort_s"):
        if draw(st.booleans()):
            columns[name] = arrival_s + np.array(column(st.just(np.nan) | TIME))
    if "n" not in columns and draw(st.booleans()):
        columns["pauses"] = column(st.sampled_from(["", "3:0.1", "20:1.5;60:0.3:40"]))
    if draw(st.booleans()):
        columns["request_id"] = [f"r{number}" for number in draw(st.permutations(range(count)))]
    return Trace("t", arrival_s, np.array(column(TOKENS)), np.array(column(TOKENS)), **columns)


def _assert_same(read, written):
    assert read.columns().keys() == written.columns().keys()
    for name, values in written.columns().items():
        if isinstance(values, list):
            assert getattr(read, name) == values
        else:
            assert getattr(read, name).tobytes() == values.tobytes(), name


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=_traces())
def test_reading_back_gives_the_same_requests_bit_for_bit(tmp_path, ending, trace):
    path = tmp_path / f"t.{ending}"
    write_trace(trace, path)
    _assert_same(open_trace("file", str(path)), trace)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no temporary file is left"


def test_prefixes_survive_parquet(tmp_path):
    prefix = Prefix.of([[1, 2, 3], [1, 2], [], [2]], [1100, 1024, 5, 512], 512)
    trace = Trace("t", np.arange(4.0), prefix.prompt_tokens, np.ones(4), prefix=prefix)
    write_trace(trace, tmp_path / "t.parquet")
    read = open_trace("file", str(tmp_path / "t.parquet"))
    assert read.prefix.hash_block_tokens == 512
    assert read.prefix.ids.tolist() == [1, 2, 3, 1, 2, 2]
    assert read.prefix.shareable_tokens().tolist() == [1024, 1024, 0, 0]


def test_generated_prefixes_survive_parquet(tmp_path):
    trace = open_trace("synthetic", num_requests=50, prefix_groups=3, prefix_tokens=300)
    write_trace(trace, tmp_path / "t.parquet")
    read = open_trace("file", str(tmp_path / "t.parquet"))
    _assert_same(read, trace)
    assert read.prefix.shareable_tokens().tolist() == trace.prefix.shareable_tokens().tolist()


@pytest.mark.parametrize(
    "options, name, problem",
    [
        ({}, "t.txt", "must end in .csv or .parquet"),
        ({"arrivals": "closed(2)"}, "t.csv", "a closed loop has no arrival times"),
        ({"prefix_tokens": 16}, "t.csv", "write .parquet"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(tmp_path, options, name, problem):
    trace = open_trace("synthetic", num_requests=4, **options)
    with pytest.raises(ValueError, match=problem):
        write_trace(trace, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failure_in_the_middle_keeps_the_old_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    broken = Trace("t", np.arange(2.0), np.ones(2), np.ones(2), user=["a", "\ud800"])  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write_trace(broken, path)
    assert path.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_parquet_errors_name_the_row(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    columns = {"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 0], "output_tokens": [1.0, 2.0], "x": [1, 2]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match="t.parquet:2: prompt_tokens is 0"):
        open_trace("file", str(path))
    trace = open_trace("file", str(path), on_error="skip")
    assert trace.output_tokens.tolist() == [1] and "columns ignored: x" in trace.report.notes
    pq.write_table(
        pa.table(
            {
                "arrival_s": pa.array([0.0, None]),
                "prompt_tokens": pa.array([1, 2], pa.uint64()),
                "output_tokens": pa.array([1, 2], pa.int16()),
            }
        ),
        path,
    )
    with pytest.raises(ValueError, match="t.parquet:2: arrival_s is missing"):
        open_trace("file", str(path))
