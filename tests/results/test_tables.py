"""The two Parquet files as others read them."""

import io
import subprocess
import sys

import numpy as np
from pyarrow import parquet

from tests.results.records import record, requests, two
from twin.results.tables import ROW_GROUP, requests_table, steps_table, write_parquet

REQUESTS = (
    "request_id arrival_s prompt_tokens output_tokens generated_tokens status reason first_scheduled_s first_token_s "
    "finish_s ttft_s tpot_s e2e_s queue_s cached_tokens preemptions swap_outs recomputed_tokens user session priority "
    "replica deadline_s"
).split()
STEPS = (
    "replica step start_s duration_s repeat prefill_tokens decode_tokens sequences context_tokens waiting running swapped "
    "used_blocks cached_blocks free_blocks preempted swapped_in_blocks swapped_out_blocks"
).split()


def test_columns_are_the_promised_ones():
    assert requests_table(two().requests).column_names == REQUESTS
    assert steps_table(two().steps).column_names == STEPS


def test_what_never_happened_is_null():
    buffer = io.BytesIO()
    write_parquet(requests_table(two().requests), buffer)
    table = parquet.read_table(buffer)
    assert table.column("first_token_s").to_pylist() == [1.0, 2.0, None]
    assert table.column("user").to_pylist() == ["ann", None, "bob"]
    assert table.column("deadline_s").null_count == 3
    assert [str(table.schema.field(name).type) for name in ("request_id", "arrival_s", "priority")] == [
        "string", "double", "int64",
    ]  # fmt: skip


def test_samples_of_a_request_are_not_a_column():
    made = two()
    made.requests["n"] = made.requests["priority"] + 1
    assert requests_table(made.requests).column_names == REQUESTS


def test_any_text_comes_back():
    made = record(requests(user=["Zoë", None, "", "東京"]))
    buffer = io.BytesIO()
    write_parquet(requests_table(made.requests), buffer)
    assert parquet.read_table(buffer).column("user").to_pylist() == ["Zoë", None, "", "東京"]


def test_a_long_table_is_written_in_row_groups_and_read_as_one():
    rows = ROW_GROUP + 7
    made = two()
    steps = {name: np.resize(column, rows) for name, column in made.steps.items()}
    steps["step"], steps["start_s"] = np.arange(rows), np.arange(rows) / 7
    buffer = io.BytesIO()
    write_parquet(steps_table(steps), buffer)
    assert parquet.ParquetFile(buffer).metadata.num_row_groups == 2
    table = parquet.read_table(buffer)
    assert table.column("step").to_pylist() == list(range(rows))
    assert table.column("start_s").to_numpy().tolist() == (np.arange(rows) / 7).tolist()
    assert table.column("running").to_numpy().tolist() == steps["running"].tolist()


def test_an_empty_table_has_its_columns():
    made = two()
    assert steps_table({name: column[:0] for name, column in made.steps.items()}).num_rows == 0


def test_writing_and_reading_imports_no_pandas(tmp_path):
    """It takes half a second, as long as many a run."""
    program = (
        "import sys\n"
        "from tests.results.records import two\n"
        "from twin.results.save import save_run\n"
        "from twin.results.load import load_run\n"
        "from twin.results.summary import summarize\n"
        f"save_run({str(tmp_path)!r}, two(), summarize(two()), {{}})\n"
        f"load_run({str(tmp_path)!r})\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
