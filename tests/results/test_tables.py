"""The two Parquet files as others read them."""

import io

from pyarrow import parquet

from tests.results.records import two
from twin.results.tables import requests_table, steps_table, write_parquet

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
