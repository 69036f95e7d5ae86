"""The radix select against a sort."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampling.threshold import least_key_reaching

# few keys, so that there are ties; keys that differ in one digit only; the largest key that odds have, 1.0
KEYS = st.sampled_from([0, 1, 2, 1023, 1024, 1025, 1 << 20, (1 << 20) + 1, 0x3F7FFFFF, 0x3F800000])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 2**40)), min_size=1, max_size=40), st.floats(0, 1))
def test_it_is_where_a_descending_sum_reaches_the_goal(row: list[tuple[int, int]], share: float) -> None:
    row.append((0x3F800000, 2**40))
    goal = max(1, int(share * sum(measure for _, measure in row)))
    reached, expected = 0, None
    for key, measure in sorted(row, reverse=True):
        reached += measure
        if reached >= goal:
            expected = key
            break
    keys, measures = torch.tensor(row).T.unsqueeze(1)
    assert least_key_reaching(keys.int(), measures, torch.tensor([goal])).tolist() == [expected]


def test_with_ones_as_measure_it_is_the_kth_largest() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 30, (20, 3000))
    ranks = rng.integers(1, 3001, 20)
    expected = [np.sort(row)[-rank] for row, rank in zip(keys, ranks, strict=True)]
    tensor = torch.tensor(keys)
    assert least_key_reaching(tensor.int(), torch.ones_like(tensor), torch.tensor(ranks)).tolist() == expected


def test_a_goal_above_the_sum_leaves_everything_in() -> None:
    keys, measure = torch.tensor([[5, 1 << 21, 1 << 29]], dtype=torch.int32), torch.tensor([[1, 1, 1]])
    assert least_key_reaching(keys, measure, torch.tensor([3])).tolist() == [5]
    assert least_key_reaching(keys, measure, torch.tensor([4])).tolist() == [0]
