"""`SessionPrefix` must answer as `Prefix` does of the same content written out, one id a block."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.prefix import Prefix
from traces.session_prefix import SessionPrefix

BLOCK = 4


@st.composite
def conversations(draw):
    """A structure of sessions, and the same prompts as sequences of content ids."""
    common = draw(st.integers(0, 3))
    last: dict[int, int] = {}
    previous, kept, tokens, prompts = [], [], [], []
    for row in range(draw(st.integers(1, 12))):
        session = draw(st.integers(0, 3))
        before = last.get(session, -1)
        length = draw(st.integers(1, 40))
        keep = draw(st.integers(0, 10))
        shared = list(range(common))
        if before >= 0:
            shared += prompts[before][common:keep]
        blocks = length // BLOCK
        prompts.append((shared + [1000 * (row + 1) + place for place in range(len(shared), blocks)])[:blocks])
        previous.append(before)
        kept.append(keep)
        tokens.append(length)
        last[session] = row
    lengths = np.array(tokens)
    structure = SessionPrefix(BLOCK, np.array(previous), np.array(kept), lengths, common)
    return structure, Prefix.of(prompts, lengths, BLOCK)


def same_keys(prefix: Prefix, block_size: int, counts: np.ndarray) -> set[tuple[int, int, int]]:
    """Which of the first `counts` blocks have the same key in two prompts: (row, other row, block)."""
    keys = [prefix.block_keys(row, block_size, count) for row, count in enumerate(counts.tolist())]
    return {
        (row, other, place)
        for row in range(len(keys))
        for other in range(row)
        for place, (one, two) in enumerate(zip(keys[row], keys[other], strict=False))
        if one == two
    }


def assert_same(structure: SessionPrefix, written: Prefix) -> None:
    assert structure.shareable_tokens().tolist() == written.shareable_tokens().tolist()
    shareable = written.shareable_tokens()
    for block_size in (1, 2, 4, 6, 16):
        counts = shareable // block_size
        assert same_keys(structure, block_size, counts) == same_content(written, block_size, counts)
    for row in range(len(written)):
        for other in range(len(written)):
            if row != other:
                assert structure.common_tokens(row, other) == written.common_tokens(row, other)


def same_content(written: Prefix, block_size: int, counts: np.ndarray) -> set[tuple[int, int, int]]:
    """The same from the sequences themselves."""
    pairs = set()
    for row in range(len(written)):
        for other in range(row):
            agree = 0
            for one, two in zip(written.sequence(row), written.sequence(other), strict=False):
                if one != two:
                    break
                agree += BLOCK
            blocks = min(agree // block_size, int(counts[row]), int(counts[other]))
            pairs |= {(row, other, place) for place in range(blocks)}
    return pairs


@given(conversations())
def test_it_answers_as_the_content_written_out(pair):
    assert_same(*pair)


@given(conversations(), st.data())
def test_requests_taken_out_keep_what_they_share(pair, data):
    structure, written = pair
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(written) - 1), min_size=1))))
    assert_same(structure.take(rows), written.take(rows))


@given(conversations())
def test_written_out_it_is_the_same(pair):
    structure, written = pair
    copy = Prefix(BLOCK, structure.ids, structure.offsets, structure.prompt_tokens)
    assert copy.shareable_tokens().tolist() == written.shareable_tokens().tolist()


def test_by_hand():
    """Blocks of 4: the second turn keeps 2 blocks of the first's 3; the third keeps 5 of the second's 5."""
    prefix = SessionPrefix(4, np.array([-1, 0, 1]), np.array([0, 2, 9]), np.array([14, 20, 30]))
    assert prefix.shareable_tokens().tolist() == [8, 20, 20]
    first, second, third = (prefix.block_keys(row, 4, count) for row, count in ((0, 3), (1, 5), (2, 7)))
    assert first[:2] == second[:2] and first[2] != second[2]
    assert second == third[:5] and len(set(third)) == 7
    assert prefix.common_tokens(0, 2) == 8 and prefix.common_tokens(2, 1) == 20


@pytest.mark.parametrize("common, expected", [(0, [0, 0]), (2, [8, 8])])
def test_sessions_share_the_common_blocks(common, expected):
    prefix = SessionPrefix(4, np.array([-1, -1]), np.array([0, 0]), np.array([14, 20]), common)
    assert prefix.shareable_tokens().tolist() == expected
