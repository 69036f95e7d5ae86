"""What the figures of a comparison draw is what was measured."""

import numpy as np
import pytest

from tests.compare.folders import folder, sweep_folder
from twin.compare.compare import compare
from twin.compare.curves import curves, front, goodput, knees, latency_throughput, load_axis
from twin.compare.kept import Options
from twin.compare.pictures import distributions, slo_scales, users
from twin.compare.traces import scenes
from twin.compare.variants import read_variants

SLO = {"config": {"slo": {"e2e_s": 2.0}}}


def comparisons(*paths):
    variants, _ = read_variants(list(paths))
    return [compare(scene, Options(warmup="none")) for scene in scenes(variants)]


def lines(panel, label=None):
    """The points of the lines of a panel, or of the one of that name."""
    return [line.get_xydata() for line in panel.lines if label is None or line.get_label() == label]


@pytest.fixture
def sweep(tmp_path):
    jobs = {}
    for rate in (0.25, 0.5, 0.75):
        for policy, factor in (("fcfs", 1.0), ("sjf", 0.9)):
            name = f"policy={policy},trace.rate={rate}"
            folder(tmp_path / name, np.full(300, factor / (1 - rate)), policy, every_s=1 / rate, **SLO)
            jobs[name] = {"policy": policy, "trace.rate": rate}
    return comparisons(sweep_folder(tmp_path, jobs))


def test_distributions(tmp_path):
    taken = np.random.default_rng(0).exponential(1.0, 300)
    (found,) = comparisons(folder(tmp_path / "a", taken, **SLO), folder(tmp_path / "b", taken * 2, "sjf", **SLO))
    panel = distributions(found).axes[2]
    for label, factor in (("fcfs", 1.0), ("sjf", 2.0)):
        (points,) = lines(panel, label)
        x, share = points[1:].T
        assert x == pytest.approx(np.sort(taken * factor)) and share == pytest.approx(np.arange(1, 301) / 300)
    assert any(np.all(points[:, 0] == 2.0) for points in lines(panel))  # the SLO


def test_goodput_at_the_slo_itself_is_that_of_the_table(tmp_path):
    taken = np.tile([1.0, 3.0, 5.0], 100)
    (found,) = comparisons(folder(tmp_path / "a", taken, **SLO), folder(tmp_path / "b", taken * 0.5, "sjf", **SLO))
    panel = slo_scales(found).axes[0]
    for label, meeting in (("fcfs", (100, 100, 200)), ("sjf", (100, 200, 300))):
        (points,) = lines(panel, label)
        (its,) = found.measured[label]
        for scale, count in zip((0.5, 1.0, 2.0), meeting, strict=True):
            at = int(np.argmin(np.abs(points[:, 0] - scale * 1.001)))  # of the scales the nearest
            expected = (its.rows["e2e_s"] <= 2.0 * points[at, 0]).sum() / its.duration_s()
            assert points[at, 1] == pytest.approx(expected)
            assert expected * its.duration_s() == pytest.approx(count)


def test_users_of_each_variant(tmp_path):
    who = {"user": np.array(["ann", "bob"] * 150, dtype=object)}
    a = folder(tmp_path / "a", np.tile([1.0, 3.0], 150), requests=who)
    (found,) = comparisons(a, folder(tmp_path / "b", np.ones(300), "sjf", requests=who))
    panel = users(found).axes[0]
    assert lines(panel, "fcfs")[0][:, 1].tolist() == pytest.approx([1000, 3000])  # ms for one token
    assert lines(panel, "sjf")[0][:, 1].tolist() == pytest.approx([1000, 1000])


def test_latency_by_throughput_with_a_ring_at_the_knee(sweep):
    assert load_axis(sweep) == "trace.rate"
    found = curves(sweep, "trace.rate")
    assert [point.load for point in found["sjf"]] == [0.25, 0.5, 0.75] and knees(found) == {"fcfs": 0.5, "sjf": 0.5}
    panel = latency_throughput(found).axes[0]
    rings = [line.get_xydata()[0] for line in panel.lines if line.get_markersize() == 11]
    assert [ring[1] for ring in rings] == pytest.approx([2.0, 1.8])
    # 300 requests from 0 to 299 / rate, the last takes 1 / (1 - rate) more
    assert rings[0][0] == pytest.approx(300 / (299 / 0.5 + 2.0))


def test_goodput_by_load(sweep):
    # Within 2 s at 0.25 (1.3 s) and at 0.5 (2 s, 1.8 s), not at 0.75 (4 s, 3.6 s).
    figure = goodput(curves(sweep, "trace.rate"), "trace.rate")
    points = lines(figure.axes[0])[0]
    assert points[:, 0].tolist() == [0.25, 0.5, 0.75]
    assert points[0, 1] == pytest.approx(300 / (299 / 0.25 + 4 / 3)) and points[2, 1] == 0.0


def test_the_front_joins_what_nothing_beats(sweep):
    panel = front(sweep).axes[0]
    drawn = lines(panel)[-1]
    # At each rate SJF is sooner and no slower in tokens: FCFS is on the front nowhere.
    assert drawn[:, 0].tolist() == pytest.approx([0.9 / 0.75, 0.9 / 0.5, 0.9 / 0.25])
