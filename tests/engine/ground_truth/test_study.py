"""What a study makes of recordings: who is fitted to what, what a prediction knows, when figures are judged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.ground_truth.reading import read_recordings
from engine.ground_truth.recording import Part, RecordedRequest, RecordedStep, Recording, RecordingError, Settings
from engine.ground_truth.steps import alike, outside_range, pooled
from engine.ground_truth.study import SATURATED, TOO_FEW, Study, _spread, grouped, offered_load, simulate
from engine.validate.comparison import KEYS, OUTSIDE, WITHIN
from engine.validate.options import LATENCIES, STATISTICS
from engine.validate.steps import Step
from tests.engine.ground_truth.small import cached, chunked
from twin.core.batch import Features
from twin.core.limits import Limits
from twin.latency.fitted import FittedLatency

TOLERANCES = {f"{metric} {statistic}": 0.04 for metric in LATENCIES for statistic in STATISTICS}
TOLERANCES |= {"throughput": 0.04, "step_mape": 0.03}
GAP_S = 0.0002
ONE_SEAT = Limits(num_blocks=100, block_size=4, max_num_seqs=1, max_num_batched_tokens=64, max_model_len=64)


class Constant:
    """A step model by which every step takes a second."""

    model = FittedLatency({"coefficients": {"base_s": 1.0}, "range": {}, "source": "made up"})
    fitted_to = ()


def recorded(name: str, arrivals: list[float], step_s: float = 0.02, seats: int = 1, **about: str) -> Recording:
    """Requests of 4 tokens and 3 outputs for one seat, as vLLM would have served them: steps of that length, and gaps."""
    requests, steps, free_s = [], [], 0.0
    for number, arrival_s in enumerate(arrivals):
        start_s = max(arrival_s, free_s)
        for step in range(3):
            begun_s = start_s + step * (step_s + GAP_S)
            waiting = sum(other <= begun_s for other in arrivals[number + 1 :])
            part = Part(f"q{number}", 4 if step == 0 else 1, 0 if step == 0 else 3 + step)
            blocks = 1 if step == 0 else 2
            admitted = (f"q{number}",) if step == 0 else ()
            steps.append(
                RecordedStep(begun_s, begun_s + step_s, (part,), admitted, frozenset(), 100 - blocks, waiting, 1)
            )  # fmt: skip
        free_s = start_s + 3 * (step_s + GAP_S)
        first_s, last_s = start_s + step_s, steps[-1].end_s
        requests.append(RecordedRequest(f"q{number}", arrival_s, arrival_s, 4, 3, first_s, last_s))
    settings = Settings(replace(ONE_SEAT, max_num_seqs=seats), about=about)
    return Recording(name, name, settings, tuple(requests), tuple(steps))


def test_the_recordings_of_this_test_are_right():
    study = Study([recorded("a", [0.0, 0.1, 0.1, 0.11])], TOLERANCES)
    study.lock()
    assert study.wrong() == [] and study.locked["a"].identical == 12


def test_offered_load_by_hand():
    """One seat, three steps of a second a request: 1/3 requests/s can be served; one comes every 4 seconds."""
    assert offered_load(recorded("a", [4.0 * number for number in range(20)]), Constant()) == pytest.approx(0.75)
    assert offered_load(recorded("a", [0.0] * 20), Constant()) == np.inf


def test_a_free_run_by_hand():
    """Steps of a second: the second request waits for the first, which takes three."""
    record = simulate(recorded("a", [0.0, 0.5]), Constant())
    assert record.requests["ttft_s"] == pytest.approx([1.0, 3.5])
    assert record.requests["e2e_s"] == pytest.approx([3.0, 5.5])


def test_a_free_run_knows_nothing_of_how_the_requests_fared():
    asked = recorded("a", [0.0, 0.1, 0.1, 0.11])
    requests = tuple(
        replace(request, added_s=request.added_s + 1, first_token_s=7.0, finish_s=9.0, preemptions=5, cached_tokens=3)
        for request in asked.requests
    )
    other = replace(asked, requests=requests, steps=asked.steps[:1])
    one, another = (simulate(recording, Constant()) for recording in (asked, other))
    for name, column in one.requests.items():
        assert list(map(str, column)) == list(map(str, another.requests[name])), name


def test_runs_of_the_same_requests_are_one_case(tmp_path):
    runs = read_recordings([chunked(tmp_path / "one"), chunked(tmp_path / "two"), cached(tmp_path / "three")])
    assert [[run.name for run in group] for group in grouped(runs)] == [["one", "two"], ["three"]]
    other = replace(runs[1], settings=replace(runs[1].settings, limits=replace(runs[1].settings.limits, max_num_seqs=3)))
    assert len(grouped([runs[0], other])) == 2 and runs[0].has_requests_of(other)


@pytest.fixture
def four() -> list[Recording]:
    """Two runs of the same requests, one of others, a burst: under one step model, steps of 20 ms."""
    rng = np.random.default_rng(5)
    calm, other = (np.cumsum(rng.exponential(0.1, 40)).tolist() for _ in range(2))
    return [recorded("calm", calm), recorded("calm_again", calm), recorded("other", other), recorded("burst", [0.0] * 20)]


def played(runs: list[Recording], monkeypatch, **names) -> Study:
    """The fit is a made-up one: steps as these are, all alike, are too few for a real one."""
    monkeypatch.setattr("engine.ground_truth.study.StepModel", Made)
    study = Study(runs, TOLERANCES, **names)
    study.lock()
    study.predict()
    return study


class Made:
    """Every step takes the mean of those that it is fitted to."""

    content: dict = {}

    def __init__(self, runs):
        self.fitted_to = tuple(run.name for run in runs)
        mean_s = float(np.mean(np.concatenate([run.durations_s() for run in runs])))
        self.model = FittedLatency({"coefficients": {"base_s": mean_s}, "range": {}, "source": "made up"})


def test_each_is_predicted_by_all_others_but_its_repeats(four, monkeypatch):
    study = played(four, monkeypatch)
    assert {case.name: case.step_model.fitted_to for case in study.cases} == {
        "calm x 2": ("other", "burst"),
        "other": ("calm", "calm_again", "burst"),
        "burst": ("calm", "calm_again", "other"),
    }
    assert study.wrong() == []
    verdicts = {case.name: {row.metric: row.verdict for row in case.rows} for case in study.cases}
    assert verdicts["other"]["ttft mean"] == WITHIN and verdicts["other"]["ttft p99"] == TOO_FEW
    assert verdicts["burst"]["ttft mean"] == SATURATED and verdicts["burst"]["throughput"] == WITHIN


def test_fit_and_predict_by_name(four, monkeypatch):
    study = played(four, monkeypatch, fit=["calm"], predict=["other"])
    assert [(case.name, case.step_model.fitted_to) for case in study.cases] == [("other", ("calm",))]
    rest = played(four, monkeypatch, fit=["calm"])
    assert [case.name for case in rest.cases] == ["calm_again", "other", "burst"]


def test_slower_steps_are_found_and_the_machine_named(four, monkeypatch):
    """Other requests, on a machine that is 10 % slower in every step."""
    slow = recorded("slow", [request.arrival_s for request in four[2].requests], step_s=0.022)
    study = played([four[0], slow], monkeypatch, fit=["calm"], predict=["slow"])
    (case,) = study.cases
    rows = {row.metric: row for row in case.rows}
    assert rows["tpot mean"].verdict == OUTSIDE and rows["tpot mean"].error == pytest.approx(0.0202 / 0.0222 - 1, abs=1e-3)
    assert case.alike is not None and case.alike.slower == pytest.approx(0.0222 / 0.0202 - 1, abs=1e-3)
    assert any("tpot mean off by -9.0 %, tolerance 4 %" in line for line in study.wrong())
    assert any(line.startswith("step times: off by 9.0 %") for line in study.wrong())


def test_vllms_own_spread_by_hand(four, monkeypatch):
    """TPOT of 20.2 and of 22.2 ms: each lies 1 / 21.2 from their mean."""
    again = recorded("calm_again", [request.arrival_s for request in four[0].requests], step_s=0.022)
    study = played([four[0], again, four[2]], monkeypatch, predict=["calm", "calm_again"])
    (spread,) = study.spreads()
    assert spread.runs == ("calm", "calm_again") and spread.of["tpot mean"] == pytest.approx(1 / 21.2)
    (row,) = [row for row in study.cases[0].rows if row.metric == "tpot mean"]
    assert row.spread == pytest.approx(1 / 21.2)


def test_a_figure_that_is_zero_in_every_run_has_no_spread():
    assert _spread([{KEYS["ttft mean"]: 0.0}, {KEYS["ttft mean"]: 0.0}], "ttft mean") is None


def test_one_run_alone_is_not_predicted(four, monkeypatch):
    study = played(four[:2], monkeypatch)
    assert study.cases == [] and study.not_predicted == ["calm x 2: there is no other run like it to fit step times to"]
    assert study.wrong() == []


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"fit": ["nobody"]}, "fit=nobody: no run of that name; there are calm, calm_again, other, burst"),
        ({"predict": ["nobody"]}, "predict=nobody: no run of that name"),
        ({"fit": ["calm"], "predict": ["calm"]}, "predict=calm: the step model is fitted to it"),
    ],
)
def test_names_that_cannot_be(four, names, told):
    with pytest.raises(RecordingError, match=told):
        Study(four, TOLERANCES, **names)


def test_runs_of_different_machines_are_not_fitted_together(four):
    other = recorded("float", [0.0, 1.0], dtype="float32")
    with pytest.raises(RecordingError, match="fit=float: float is of dtype float32, calm of None"):
        Study([*four, other], TOLERANCES, fit=["calm", "float"])
    study = Study([four[0], other], TOLERANCES, fit=["calm"], predict=["float"])
    with pytest.raises(RecordingError, match="predict=float: float is of dtype float32"):
        study.predict()


def test_asynchronous_runs_are_refused(four):
    other = replace(four[0], name="async", settings=replace(four[0].settings, async_scheduling=True))
    with pytest.raises(RecordingError, match="only runs with async_scheduling=false can be replayed"):
        Study([other], TOLERANCES)


def decode(sequences: int, context: int, duration_s: float) -> Step:
    return Step(Features(sequences, 0, sequences, context), 0.0, duration_s)


def test_steps_of_the_same_composition():
    """3 % more in each of ten compositions, though the second set has many more of the slow ones."""
    first = [decode(count, 100 * count, 0.01 * count) for count in range(1, 11) for _ in range(5)]
    second = [decode(count, 100 * count, 0.0103 * count) for count in range(1, 11) for _ in range(5 * count)]
    found = alike(first, second)
    assert found.steps == 50 and found.slower == pytest.approx(0.03) and found.error == pytest.approx(0.0)
    assert alike(first, [decode(20, 2000, 0.2)] * 50) is None


def test_pooled_errors_by_hand():
    """Models of 1 s and of 2 s: one step of 0.8 s foretold by the first, three of 2.5 s by the second."""
    one, two = (FittedLatency({"coefficients": {"base_s": s}, "range": {}, "source": ""}) for s in (1.0, 2.0))
    errors = pooled([(one, [decode(1, 9, 0.8)]), (two, [decode(1, 9, 2.5)] * 3)])
    assert [each.region for each in errors] == ["decode", "all"]
    assert errors[-1].steps == 4 and errors[-1].mape == pytest.approx((0.25 + 3 * 0.2) / 4)
    assert errors[-1].bias == pytest.approx(7.0 / 8.3 - 1)


def test_steps_beyond_the_range():
    model = FittedLatency({"coefficients": {"base_s": 1.0}, "range": {"sequences": [1, 8]}, "source": ""})
    assert outside_range(model, [decode(8, 100, 1.0), decode(9, 100, 1.0)]) == 0.5


def test_predicting_needs_no_more_than_the_file_says(tmp_path: Path):
    """A cached prompt is cached in the free run too: 8 of B's 10 tokens are A's."""
    (run,) = read_recordings([cached(tmp_path / "run")])
    record = simulate(
        replace(run, requests=tuple(replace(r, arrival_s=r.arrival_s * 100) for r in run.requests)), Constant()
    )
    assert list(record.requests["cached_tokens"]) == [0, 8]
