"""The table of seats and budget: what it says of itself, by hand."""

import pytest

from twin.reproduce.experiment import load
from twin.reproduce.seats_and_budget import most_requests_per_s


def test_the_published_rate_is_more_than_the_published_time_a_token_allows():
    # 64 seats, 256 tokens at 22 ms: 255 x 0.022 = 5.61 s in the seat, 64 / 5.61 = 11.41 requests/s; and 23.35 of 256
    assert most_requests_per_s(64, 0.022) == pytest.approx(11.408, abs=1e-3)
    assert most_requests_per_s(256, 0.043) == pytest.approx(23.347, abs=1e-3)


def test_what_was_played_obeys_littles_law_and_what_an_a100_multiplies():
    figures = {figure.what: figure for figure in load("seats_and_budget", ["requests=400", "jobs=1"]).figures()}
    for seats, budget in ((64, 4096), (256, 8192)):
        at = f"{seats} seats, budget {budget}, as told"
        rate, tpot_ms = (float(figures[f"{at}: {what}"].ours.split()[0]) for what in ("throughput", "TPOT p50"))
        assert rate <= most_requests_per_s(seats, tpot_ms / 1e3) * 1.05  # the median, for the mean
        assert rate * (1024 + 255) * 2 * 14.2e9 < 312e12  # parameters without the embedding
