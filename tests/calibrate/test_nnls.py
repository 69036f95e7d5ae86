"""Non-negative least squares, against SciPy's."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from twin.calibrate.nnls import nnls, triangle


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(3, 40), columns=st.integers(1, 9))
def test_the_answer_is_scipys(seed: int, rows: int, columns: int):
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(rows, columns)) * 10.0 ** draw.integers(-6, 6, columns)
    target = draw.normal(size=rows)
    expected, norm = scipy.optimize.nnls(matrix / np.linalg.norm(matrix, axis=0), target)
    found = nnls(matrix, target)
    assert (found >= 0).all()
    assert np.linalg.norm(matrix @ found - target) == pytest.approx(norm, rel=1e-9)
    if rows >= columns:
        assert found * np.linalg.norm(matrix, axis=0) == pytest.approx(expected, abs=1e-8)


def test_a_coefficient_that_would_be_negative_is_zero_and_the_others_are_fitted_without_it():
    matrix = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert nnls(matrix, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])  # the mean


def test_columns_of_zeros_and_no_columns_at_all_have_an_answer():
    assert nnls(np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([2.0, 4.0])) == pytest.approx([0.0, 2.0])
    assert nnls(np.zeros((3, 0)), np.ones(3)).shape == (0,)


def test_a_problem_brought_to_a_triangle_has_the_same_answer_for_any_of_its_columns():
    draw = np.random.default_rng(1)
    matrix, target = draw.random((50, 6)), draw.random(50)
    reduced = triangle(matrix, target)
    assert reduced.shape == (7, 7)
    for columns in ([0, 2, 5], [1], [0, 1, 2, 3, 4, 5]):
        assert nnls(reduced[:, columns], reduced[:, -1]) == pytest.approx(nnls(matrix[:, columns], target), abs=1e-10)
