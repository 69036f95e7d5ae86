"""Comparisons of folders made by hand: what differs, by how much, how surely, and what may not be compared."""

from pathlib import Path

import numpy as np
import pytest

from tests.compare.folders import folder, sweep_folder
from twin.compare.compare import Comparison, Row, compare
from twin.compare.kept import Options
from twin.compare.traces import scenes
from twin.compare.variants import read_variants
from twin.results.load import RunError

NO_WARMUP = Options(warmup="none")


def compared(*paths: Path, options: Options = NO_WARMUP, different: bool = False) -> list[Comparison]:
    variants, _ = read_variants(list(paths))
    return [compare(scene, options) for scene in scenes(variants, different)]


def row(comparison: Comparison, key: str, variant: str) -> Row:
    (found,) = [row for row in comparison.rows if row.figure.key == key and row.variant == variant]
    return found


def draw(size: int = 1000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).exponential(1.0, size)


def test_a_constant_difference_is_known_exactly(tmp_path):
    taken = draw()
    (found,) = compared(folder(tmp_path / "a", taken), folder(tmp_path / "b", taken + 0.25, "sjf"))
    for key in ("e2e_s_mean", "e2e_s_p50", "e2e_s_p99"):
        later = row(found, key, "sjf")
        assert later.difference.value == pytest.approx(0.25) and later.difference.half == pytest.approx(0, abs=1e-9)
        assert later.verdict == "worse"
    assert row(found, "e2e_s_mean", "fcfs").value.value == pytest.approx(taken.mean())
    assert row(found, "e2e_s_mean", "sjf").relative == pytest.approx(0.25 / taken.mean())
    pairs = next(pairs for pairs in found.pairs if pairs.column == "e2e_s")
    assert (pairs.pairs, pairs.sooner, pairs.equal) == (1000, 0.0, 0.0)
    assert (pairs.mean.value, pairs.median, pairs.best, pairs.worst) == pytest.approx((0.25, 0.25, 0.25, 0.25))


def test_figures_without_warm_up_are_those_of_the_summary(tmp_path):
    variants, _ = read_variants([folder(tmp_path / "a", draw()), folder(tmp_path / "b", draw(seed=1), "sjf")])
    (found,) = [compare(scene, NO_WARMUP) for scene in scenes(variants)]
    for variant in variants:
        for key in (
            "e2e_s_mean",
            "e2e_s_p99",
            "ttft_s_p50",
            "queue_s_mean",
            "request_throughput",
            "output_token_throughput",
        ):
            assert row(found, key, variant.label).value.value == pytest.approx(variant.first().summary[key], rel=1e-12)


def test_the_same_run_twice_differs_in_nothing(tmp_path):
    taken = draw()
    (found,) = compared(folder(tmp_path / "a", taken), folder(tmp_path / "b", taken))
    assert found.identical == ["b"]
    others = [row for row in found.rows if row.variant == "b"]
    assert others and {row.verdict for row in others} == {"equal"} and {row.difference.value for row in others} == {0.0}


def test_a_difference_within_its_noise_is_not_significant(tmp_path):
    taken, noise = draw(), np.random.default_rng(1).standard_normal(1000) * 0.1
    (found,) = compared(folder(tmp_path / "a", taken + 1), folder(tmp_path / "b", taken + 1 + noise - noise.mean(), "sjf"))
    mean = row(found, "e2e_s_mean", "sjf")
    assert mean.verdict == "not significant" and mean.difference.half > abs(mean.difference.value)


def test_pairs_find_what_unrelated_runs_hide(tmp_path):
    taken, noise = draw(4000) * 5, np.random.default_rng(1).standard_normal(4000) * 0.1
    first, second = folder(tmp_path / "a", taken + 1), folder(tmp_path / "b", taken + 0.95 + noise, "sjf")
    (paired,) = compared(first, second)
    assert row(paired, "e2e_s_mean", "sjf").verdict == "better"
    other = folder(tmp_path / "c", np.roll(taken, 7) + 0.95, "srpt", every_s=0.5)
    (apart,) = compared(first, other, different=True)
    assert row(apart, "e2e_s_mean", "srpt").verdict == "not significant" and not apart.pairs and not apart.scene.paired


def test_seeds_are_replicates_and_differences_are_taken_seed_by_seed(tmp_path):
    from scipy.stats import t

    for seed in range(4):
        folder(tmp_path / "a" / f"seed={seed}", draw(seed=seed) + seed, seed=seed)
        folder(tmp_path / "b" / f"seed={seed}", draw(seed=seed) + seed + 0.1 + 0.01 * (-1) ** seed, "sjf", seed=seed)
    (found,) = compared(tmp_path / "a", tmp_path / "b", options=Options(warmup="none", confidence=0.9))
    mean = row(found, "e2e_s_mean", "sjf")
    means = [draw(seed=seed).mean() + seed for seed in range(4)]
    assert row(found, "e2e_s_mean", "fcfs").value.half == pytest.approx(t.ppf(0.95, 3) * np.std(means, ddof=1) / 2)
    assert mean.difference.value == pytest.approx(0.1) and mean.verdict == "worse"
    assert mean.difference.half == pytest.approx(t.ppf(0.95, 3) * np.std([0.11, 0.09, 0.11, 0.09], ddof=1) / 2)


def test_seeds_that_only_one_has_are_left_out_and_named(tmp_path):
    for seed in range(3):
        folder(tmp_path / "a" / f"seed={seed}", draw(seed=seed), seed=seed)
    for seed in (1, 2):
        folder(tmp_path / "b" / f"seed={seed}", draw(seed=seed) + 1, "sjf", seed=seed)
    (found,) = compared(tmp_path / "a", tmp_path / "b")
    assert found.scene.seeds == [1, 2] and any("seed 0 left out" in note for note in found.notes)


def test_warm_up_is_removed_by_rule_and_the_same_in_all(tmp_path):
    # An empty system fills: until request 150 each takes 0.2 s, then 20 s: about 20 are in the system.
    taken = np.r_[np.full(150, 0.2), np.full(1850, 20.0)] + draw(2000) * 0.01
    paths = folder(tmp_path / "a", taken), folder(tmp_path / "b", np.full(2000, 0.2), "sjf")
    (found,) = compared(*paths, options=Options())
    kept = {label: len(its[0].rows["arrival_s"]) for label, its in found.measured.items()}
    assert kept["fcfs"] == kept["sjf"] and 150 <= 2000 - kept["fcfs"] <= 190
    assert "MSER-5" in found.warmup
    assert row(found, "e2e_s_mean", "fcfs").value.value == pytest.approx(20.0, abs=0.1)


@pytest.mark.parametrize(("told", "left"), [({"warmup_requests": 30}, 30), ({"warmup_s": 99.5}, 100)])
def test_the_warm_up_of_the_runs_comes_first(tmp_path, told, left):
    paths = [folder(tmp_path / name, draw(), name, config=told) for name in ("a", "b")]
    (found,) = compared(*paths, options=Options())
    assert len(found.measured["a"][0].rows["arrival_s"]) == 1000 - left


def test_a_queue_that_grows_is_flagged(tmp_path):
    over = {"saturated": True, "queue_slope_per_s": 0.5}
    busy = {"sequences": np.ones(1000, dtype=int)}  # a second each, one after the other, over the whole time of arrivals
    paths = folder(tmp_path / "a", draw()), folder(tmp_path / "b", draw() + 1, "sjf", summary=over, steps=busy)
    (found,) = compared(*paths)
    (note,) = [note for note in found.notes if "saturated" in note]
    assert note.startswith("sjf is saturated: busy 100.0 % of the time, the queue grows by 0.5 requests/s")


def test_slo_and_goodput_by_hand(tmp_path):
    # One a second; 750 take 1 s, 250 take 3 s, among them the last but one, which comes at 998 s and ends at 1001 s.
    taken = np.tile([1.0, 1.0, 3.0, 1.0], 250)
    paths = folder(tmp_path / "a", taken), folder(tmp_path / "b", np.ones(1000), "sjf")
    (found,) = compared(*paths, options=Options(warmup="none", limits={"e2e_s": 2.0}))
    assert (
        row(found, "slo_attainment", "fcfs").value.value == 0.75 and row(found, "slo_attainment", "sjf").verdict == "better"
    )
    assert row(found, "goodput", "fcfs").value.value == pytest.approx(750 / 1001)


def test_fairness_between_users_by_hand(tmp_path):
    users = {"user": np.array(["ann", "bob"] * 500, dtype=object)}
    taken = np.tile([1.0, 3.0], 500)
    paths = folder(tmp_path / "a", taken, requests=users), folder(tmp_path / "b", np.ones(1000), "sjf", requests=users)
    (found,) = compared(*paths)
    assert row(found, "jain_index", "fcfs").value.value == pytest.approx((1 + 3) ** 2 / (2 * (1 + 9)))  # 0.8
    assert row(found, "jain_index", "sjf").value.value == pytest.approx(1.0)


def test_runs_of_other_requests_are_refused_with_what_differs(tmp_path):
    first = folder(tmp_path / "a", draw())
    with pytest.raises(
        RunError, match=r"trace.rate 1.0 and 2.0; arrival_s of 999 requests, first of request r1: 1.0 and 0.5"
    ):
        compared(first, folder(tmp_path / "b", draw(), "sjf", every_s=0.5))
    with pytest.raises(RunError, match="1,000 and 500 requests"):
        compared(first, folder(tmp_path / "c", draw(500), "sjf"))
    with pytest.raises(RunError, match="seed 0 and seed 1"):
        compared(first, folder(tmp_path / "d", draw(), "sjf", seed=1))


def test_closed_loops_may_arrive_at_other_times(tmp_path):
    closed = {"trace": {"name": "synthetic", "arrivals": "closed(4)"}}
    first = folder(tmp_path / "a", draw(), config=closed)
    over = {"saturated": True}
    (found,) = compared(first, folder(tmp_path / "b", draw(), "sjf", every_s=0.5, config=closed, summary=over))
    assert found.scene.paired
    assert any(note.startswith("sjf is saturated") and "closed loop" in note for note in found.notes)


def test_requests_without_an_end_are_in_no_mean_but_in_attainment(tmp_path):
    lost = {"status": np.array(["finished", "rejected"] * 500, dtype=object),
            "finish_s": np.where(np.arange(1000) % 2, np.nan, np.arange(1000) + 1.0),
            "first_token_s": np.where(np.arange(1000) % 2, np.nan, np.arange(1000) + 1.0)}  # fmt: skip
    paths = folder(tmp_path / "a", np.ones(1000)), folder(tmp_path / "b", np.ones(1000), "sjf", requests=lost)
    (found,) = compared(*paths, options=Options(warmup="none", limits={"e2e_s": 2.0}))
    assert row(found, "e2e_s_mean", "sjf").verdict == "equal" and row(found, "slo_attainment", "sjf").value.value == 0.5
    assert next(pairs for pairs in found.pairs if pairs.column == "e2e_s").pairs == 500


def test_a_sweep_falls_into_scenes_by_trace(tmp_path):
    jobs = {}
    for rate in (1.0, 2.0):
        for policy, more in (("fcfs", 0.0), ("sjf", 0.1)):
            name = f"policy={policy},trace.rate={rate}"
            folder(tmp_path / name, draw() + more, policy, every_s=1 / rate)
            jobs[name] = {"policy": policy, "trace.rate": rate}
    found = compared(sweep_folder(tmp_path, jobs))
    assert [(each.scene.name, each.scene.labels()) for each in found] == [
        ("trace.rate=1.0", ["fcfs", "sjf"]), ("trace.rate=2.0", ["fcfs", "sjf"]),
    ]  # fmt: skip
    assert all(row(each, "e2e_s_mean", "sjf").difference.value == pytest.approx(0.1) for each in found)


def test_two_sweeps_of_the_same_settings_keep_their_names(tmp_path):
    for sweep, more in (("old", 0.0), ("new", 0.1)):
        jobs = {}
        for rate in (1.0, 2.0):
            folder(tmp_path / sweep / f"trace.rate={rate}", draw() + more, every_s=1 / rate)
            jobs[f"trace.rate={rate}"] = {"trace.rate": rate}
        sweep_folder(tmp_path / sweep, jobs)
    found = compared(tmp_path / "old", tmp_path / "new")
    names = [label.partition(":")[0] for label in found[0].scene.labels()]
    assert [each.scene.name for each in found] == ["trace.rate=1.0", "trace.rate=2.0"] and names == ["old", "new"]
    (second,) = [row for row in found[1].rows if row.figure.key == "e2e_s_mean" and row.difference]
    assert second.difference.value == pytest.approx(0.1)


def test_a_swept_seed_makes_replicates(tmp_path):
    jobs = {}
    for seed in (0, 1):
        for policy in ("fcfs", "sjf"):
            folder(tmp_path / f"policy={policy},seed={seed}", draw(seed=seed), policy, seed=seed)
            jobs[f"policy={policy},seed={seed}"] = {"policy": policy, "seed": seed}
    (found,) = compared(sweep_folder(tmp_path, jobs))
    assert found.scene.labels() == ["fcfs", "sjf"] and found.scene.seeds == [0, 1]


def test_the_baseline_may_be_chosen(tmp_path):
    paths = folder(tmp_path / "a", draw()), folder(tmp_path / "b", draw() + 1, "sjf")
    (found,) = compared(*paths, options=Options(warmup="none", baseline="sjf"))
    assert row(found, "e2e_s_mean", "fcfs").difference.value == pytest.approx(-1.0)
    with pytest.raises(ValueError, match="baseline=x: no such variant .there are fcfs; sjf."):
        compared(*paths, options=Options(baseline="x"))
