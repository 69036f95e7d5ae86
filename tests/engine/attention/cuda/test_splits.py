"""Into how many spans contexts are cut."""

from hypothesis import given
from hypothesis import strategies as st

from engine.attention.cuda.splits import choose_splits, most_spans


def test_by_hand():
    """For 132 multiprocessors (H100) and 8 KV heads."""
    assert choose_splits(1, 8, 100, 132) == 1  # too short to be cut
    assert choose_splits(1, 8, 4096, 132) == 32  # fill: 264 / 8 = 33, but spans keep 128 tokens
    assert choose_splits(1, 8, 131072, 132) == 256  # balance: 2112 / 8 = 264, but spans keep 512 tokens
    assert choose_splits(64, 8, 8192, 132) == 4  # balance: 2112 / 512
    assert choose_splits(300, 8, 8192, 132) == 1  # 2400 blocks are enough


@given(st.integers(1, 2000), st.integers(1, 64), st.integers(0, 200_000), st.integers(1, 200))
def test_partial_results_are_bounded_and_spans_not_too_short(sequences, kv_heads, longest, multiprocessors):
    splits = choose_splits(sequences, kv_heads, longest, multiprocessors)
    assert splits >= 1
    if splits > 1:
        assert sequences * kv_heads * splits <= most_spans(multiprocessors)
        assert longest / splits >= 128
