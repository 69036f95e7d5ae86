"""Pareto fronts by hand, the knee of M/M/1 by theory, Jain's index, utilisation."""

import numpy as np
import pytest

from tests.results.records import steps
from twin.compare.figures import jain, utilisation
from twin.compare.fronts import knee, pareto
from twin.results.columns import STEPS, complete


def test_the_front_is_what_nothing_beats():
    #        cheap      beaten by 0   best gain  nan      equal to 2
    costs = [1.0, 1.5, 3.0, np.nan, 3.0, 2.0]
    gains = [2.0, 2.0, 5.0, 9.0, 5.0, 4.0]
    assert pareto(costs, gains) == [0, 5, 2, 4]
    assert pareto([], []) == []


def test_the_knee_of_a_queue_is_at_half_its_capacity():
    # M/M/1, service rate 1: latency 1 / (1 - load); power load (1 - load) is greatest at 1/2 (Kleinrock, 1979).
    loads = np.linspace(0.1, 0.9, 9)
    assert loads[knee(loads, 1 / (1 - loads))] == pytest.approx(0.5)


def test_a_knee_outside_what_was_measured_is_none():
    loads = np.array([0.1, 0.2, 0.3])
    assert knee(loads, 1 / (1 - loads)) is None
    assert knee(loads + 0.6, 1 / (0.4 - loads)) is None
    assert knee([1.0, 2.0], [1.0, 1.0]) is None


def test_jains_index():
    assert jain(np.array([2.0, 2.0, 2.0])) == 1.0
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert jain(np.array([1.0, 3.0, np.nan])) == pytest.approx(0.8)


def test_utilisation_is_the_share_of_the_time_with_a_step():
    table = complete(STEPS, steps(start_s=[0.0, 2.0, 5.0], duration_s=[1.0, 2.0, 5.0], sequences=[1, 1, 1]), {})
    assert utilisation(table, 0.0, 10.0) == pytest.approx(0.8)
    assert utilisation(table, 0.5, 3.0) == pytest.approx(1.5 / 2.5)
    assert np.isnan(utilisation(table, 1.0, 1.0))
