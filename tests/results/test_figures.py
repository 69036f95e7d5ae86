"""Figures: thinned without losing what matters, and the same bytes each time."""

import io

import numpy as np
import pytest

from tests.results.records import NAN, queue, record, requests, two
from twin.results.figures import figures
from twin.results.style import save_png, to_svg
from twin.results.thin import cumulative, during, held, over_time, thinned
from twin.results.timeweighted import Rows, replicas


def test_a_distribution_is_exact_where_it_is_drawn():
    values = np.random.default_rng(0).exponential(size=100_000)
    across, share = cumulative(values)
    assert len(across) <= 600 and across[-1] == values.max() and across[0] == values.min()
    assert share.tolist() == [float(np.mean(values <= place)) for place in across]


def test_a_small_distribution_keeps_every_request():
    across, share = cumulative(np.array([3.0, np.nan, 1.0]))
    assert (across.tolist(), share.tolist()) == ([1.0, 3.0], [0.5, 1.0])


def test_a_long_curve_keeps_its_peaks_and_its_mean():
    made = queue(20_000)
    rows = replicas(made.steps)[0]
    curve = over_time(rows, made.steps["waiting"])
    assert len(curve.times_s) == 400 and not curve.exact
    assert curve.high.max() == made.steps["waiting"].max() and curve.low.min() == 0
    assert ((curve.low <= curve.mean) & (curve.mean <= curve.high)).all()


def test_a_short_curve_shows_pauses():
    """8 blocks until 1 s, a pause until 3 s, back to 0 at 4 s."""
    made = two()
    made.steps["start_s"], made.steps["duration_s"] = np.array([0.0, 3.0, 4.0]), np.ones(3)
    curve = over_time(replicas(made.steps)[0], np.array([8, 0, 0]))
    assert curve.times_s.tolist() == [0, 1, 1, 3, 4, 4, 4, 5, 5]
    assert curve.mean.tolist() == [0, 8, 8, 8, 8, 0, 0, 0, 0]


def drawn(made, slo=None) -> list[bytes]:
    pictures = []
    for figure in figures(made.requests, made.steps, slo).values():
        buffer = io.BytesIO()
        save_png(figure, buffer)
        pictures.append(buffer.getvalue())
    return pictures


def test_the_same_run_gives_the_same_pictures():
    assert drawn(queue(3000), {"ttft_s": 1.0}) == drawn(queue(3000), {"ttft_s": 1.0})


@pytest.mark.parametrize("made", [
    two(),
    record(requests(status=["rejected"], first_token_s=[NAN], finish_s=[0.0], generated_tokens=[0])),
    record(requests(arrival_s=[0.0] * 50)),
])  # fmt: skip
def test_runs_without_much_can_be_drawn(made):
    assert all(picture.startswith(b"\x89PNG") for picture in drawn(made))


ROWS = Rows(np.array([0.0, 3.0, 4.0]), np.array([1.0, 4.0, 5.0]), np.arange(3))  # a pause from 1 s to 3 s


def test_who_waits_is_known_when_a_step_ends_and_until_the_next_does():
    curve = held(ROWS, np.array([8, 2, 1]))
    assert curve.times_s.tolist() == [0, 1, 1, 4, 4, 5, 5]
    assert curve.mean.tolist() == [0, 0, 8, 8, 2, 2, 1]


def test_what_a_step_computes_is_nothing_between_steps():
    curve = during(ROWS, np.array([8, 2, 1]))
    assert curve.times_s.tolist() == [0, 0, 1, 1, 3, 3, 4, 4, 4, 4, 5, 5]
    assert curve.mean.tolist() == [0, 8, 8, 0, 0, 2, 2, 2, 1, 1, 1, 0]


def test_thinned_the_mean_of_a_step_function_is_exact():
    """Steps of 1 s with values 0, 1, 0, 1, ...: in every span of many steps half of the time each, in between 0 and 1."""
    start = np.arange(4000.0)
    curve = during(Rows(start, start + 1, np.arange(4000)), np.arange(4000) % 2, bins=100)
    assert len(curve.times_s) == 100 and curve.mean.tolist() == pytest.approx([0.5] * 100)
    assert curve.low.tolist() == [0.0] * 100 and curve.high.tolist() == [1.0] * 100


@pytest.mark.parametrize("shape", [over_time, held, during])
def test_no_step_gives_no_curve(shape):
    assert len(shape(Rows(np.empty(0), np.empty(0), np.arange(0)), np.empty(0)).times_s) == 0


def test_thinning_keeps_the_ends():
    assert thinned(5, 10).tolist() == [0, 1, 2, 3, 4]
    found = thinned(10_000, 100)
    assert len(found) == 100 and (found[0], found[-1]) == (0, 9999)


def test_an_svg_takes_the_ink_of_its_page_and_has_ids_of_its_own():
    made = queue(3000)
    pictures = {name: to_svg(figure, name) for name, figure in figures(made.requests, made.steps).items()}
    for name, text in pictures.items():
        assert text.startswith("<svg viewBox=") and "currentColor" in text
        assert text.count(' id="') == text.count(f' id="{name}-') and "url(#p" not in text
