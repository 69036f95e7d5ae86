"""Student's t against printed tables (Fisher and Yates) and against scipy."""

import pytest

from twin.cli.intervals import mean_and_half_width, t_quantile


@pytest.mark.parametrize(
    ("freedom", "printed"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)]
)
def test_quantiles_are_those_of_the_printed_table(freedom, printed):
    assert t_quantile(freedom) == pytest.approx(printed, abs=5e-4)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 10, 29, 50])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_are_those_of_scipy(freedom, confidence):
    from scipy.stats import t

    assert t_quantile(freedom, confidence) == pytest.approx(t.ppf(0.5 + confidence / 2, freedom), rel=1e-7)


def test_interval_by_hand():
    # 1, 2, 3: mean 2, standard deviation 1, so 4.303 / sqrt(3) to either side
    mean, half = mean_and_half_width([1.0, 2.0, 3.0])
    assert mean == 2.0 and half == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
