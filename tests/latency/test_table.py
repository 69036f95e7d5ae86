"""The table model: interpolation on measured grids."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared import shared
from twin.core.batch import Features
from twin.latency.surface import Surface, curve, line_at
from twin.latency.table import KernelTables, TableLatency
from twin.latency.table_files import read_kernel_tables

SEQUENCES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (64, 256, 1024, 4096, 16384)


def truth(sequences: float, context: float) -> float:
    """2 ms and 3 ns for each context token of each sequence."""
    return 0.002 + 3e-9 * sequences * context


def tables(**changes: object) -> KernelTables:
    fields = {
        "dense": curve([(1, 0.005), (256, 0.005), (512, 0.010)], "dense"),
        "head": curve([(1, 0.001), (101, 0.002)], "head"),
        "decode_attention": Surface([(n, kv, truth(n, kv)) for n in SEQUENCES for kv in CONTEXTS], "decode"),
        "prefill_attention": Surface([(16, 8, 1e-3), (16, 800, 2e-3), (512, 256, 4e-3), (512, 1000, 8e-3)], "prefill"),
    }
    return KernelTables(**{**fields, **changes})


def test_leave_one_out_error_is_below_one_percent_and_in_log_space_above_ten():
    """cal-01: on a geometric grid, lines recover a sum of products; lines through the logarithms do not."""
    linear, logarithmic = [], []
    for n in SEQUENCES[1:-1]:
        for kv in CONTEXTS[1:-1]:
            rest = [(a, b, truth(a, b)) for a in SEQUENCES for b in CONTEXTS if (a, b) != (n, kv)]
            linear.append(abs(Surface(rest, "grid").value(n, kv) / truth(n, kv) - 1))
            low, high = truth(n, kv / 4), truth(n, kv * 4)
            logarithmic.append(abs(math.sqrt(low * high) / truth(n, kv) - 1))
    assert max(linear) < 0.01
    assert max(logarithmic) > 0.10


def test_a_step_is_the_sum_of_its_kernels_and_the_host():
    model = TableLatency(tables(), host_s=0.0005, mixed_s=0.007)
    # 51 decodes of 1,000: dense flat, head halfway, attention on its plane
    assert model.decode_step_s(51, 51_000) == pytest.approx(0.0005 + 0.005 + 0.0015 + truth(51, 1000), rel=1e-12)
    # 16 prompt tokens after 396 others: 404 keys a query, halfway between 8 and 800
    step = Features(1, 16, 0, 412, 412, 16 * 404, 1)
    assert model.step_s(step) == pytest.approx(0.0005 + 0.007 + 0.005 + 0.001 + 1.5e-3, rel=1e-12)


def test_without_the_host_term_every_output_token_is_low_by_all_of_it():
    """cal-09: an engine with a gap of 4 ms between steps."""
    with_gap, without = TableLatency(tables(), host_s=0.004), TableLatency(tables())
    for sequences in (1, 7, 64):
        difference = with_gap.decode_step_s(sequences, 900 * sequences) - without.decode_step_s(sequences, 900 * sequences)
        assert difference == pytest.approx(0.004, rel=1e-9)


def test_the_host_term_grows_with_the_batch_up_to_its_full_size():
    part, without = TableLatency(tables(), host_s=0.004, host_full_sequences=16), TableLatency(tables())
    for sequences, expected in ((4, 0.001), (16, 0.004), (50, 0.004)):
        added = part.decode_step_s(sequences, 900 * sequences) - without.decode_step_s(sequences, 900 * sequences)
        assert added == pytest.approx(expected)


@settings(max_examples=50)
@given(
    sequences=st.integers(1, 80),
    mean=st.integers(1, 20_000),
    steps=st.integers(1, 3000),
    start=st.floats(min_value=0, max_value=1e5),
)
def test_a_stretch_across_grid_lines_is_single_steps_to_the_last_bit(sequences, mean, steps, start):
    model = TableLatency(tables())
    ends = model.stretch(start, sequences, sequences * mean, steps, math.inf)
    now = start
    for index, end in enumerate(ends):
        now += model.step_s(Features(sequences, 0, sequences, sequences * (mean + index)))
        assert now == end
    assert len(ends) == steps


def test_decode_pieces_meet_at_the_grid_lines():
    model = TableLatency(tables())
    for sequences in (1, 3, 40, 100):
        pieces = model.segments(sequences)
        for left, right in zip(pieces, pieces[1:], strict=False):
            at = left.below_tokens
            assert left.fixed_s + left.per_context_token_s * at == pytest.approx(
                right.fixed_s + right.per_context_token_s * at, rel=1e-9
            )


def test_beyond_the_grid_the_slope_of_its_upper_half_goes_on():
    assert line_at(curve([(0, 0), (100, 10), (150, 40), (200, 20)], "noisy"), 300)[0] == pytest.approx(30)
    model = TableLatency(tables())
    assert model.ranges()["sequences"][1] == 64


def test_a_missing_column_is_an_error_that_names_it(tmp_path):
    """cal-05."""
    (tmp_path / "dense.csv").write_text("layer,time_us\nqkv_proj,5\n")
    with pytest.raises(ValueError, match=r"dense.csv: missing column tokens; there must be layer, tokens, time_us"):
        read_kernel_tables(tmp_path, 32)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("qkv_proj,1,5\nqkv_proj,2,\n", "line 3: a number is missing or malformed"),
        ("qkv_proj,1,5\nqkv_proj,2,-1\n", "line 3: time_us must be above 0"),
        ("qkv_proj,1,nan\n", "line 2: time_us must be above 0"),
    ],
)
def test_a_malformed_row_names_file_and_line(tmp_path, rows, message):
    (tmp_path / "dense.csv").write_text("layer,tokens,time_us\n" + rows)
    with pytest.raises(ValueError, match=message):
        read_kernel_tables(tmp_path, 32)


def test_layers_are_summed_as_often_as_a_model_has_them(tmp_path):
    (tmp_path / "dense.csv").write_text("layer,tokens,time_us\nqkv_proj,1,10\nlayernorm,1,3\nembedding,1,7\n")
    (tmp_path / "per_sequence.csv").write_text("layer,sequences,time_us\nlm_head,1,100\nsampler,1,20\n")
    (tmp_path / "attention.csv").write_text(
        "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,4\n16,0,0,0,5\n16,0,1,16,9\n"
    )
    model = TableLatency(read_kernel_tables(tmp_path, layers=32))
    assert model.decode_step_s(1, 16) == pytest.approx((32 * (10 + 2 * 3 + 4) + 7 + 120) * 1e-6)


def test_measured_kernels_of_a_real_gpu_give_steps_of_the_right_size():
    folder = shared("profiles", "llmservingsim", "perf_v1", "RTXPRO6000", "meta-llama", "Llama-3.1-8B", "bf16", "tp1")
    model = TableLatency(read_kernel_tables(folder, layers=32))
    # vLLM 0.19 on this GPU gave 87.0 tokens/s with one request running (timeseries.csv of the run, t = 66): 11.49 ms
    assert model.decode_step_s(1, 1500) == pytest.approx(1 / 87.0, rel=0.02)
    # and cannot read 15 GB of weights faster than its data sheet's 1,597 GB/s
    assert model.decode_step_s(1, 16) > 7.5e9 * 2 / 1597e9
