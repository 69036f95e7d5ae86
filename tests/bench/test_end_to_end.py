"""The comparison with others' end-to-end figures: closed forms, and some of the real points."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.shared import shared

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """(end_to_end, end_to_end_points), which are programs and no package."""
    monkeypatch.syspath_prepend(str(BENCH))
    import end_to_end
    import end_to_end_points

    yield end_to_end, end_to_end_points
    for name in ("end_to_end", "end_to_end_points"):
        sys.modules.pop(name, None)


def made_up(bench, **changes):
    """Four clients, 16 + 11 tokens, for steps of 10 ms."""
    known = {
        "name": "made up", "group": "made up", "model": "llama3.1-8b", "gpu": "h100", "gpus": 1, "prompt": 16, "output": 11,
        "one_length": True, "in_flight": 4, "requests": None, "budget": 8192, "seats": 4, "ttft_s": 0.02, "tpot_s": 0.01,
        "throughput": None,
    }  # fmt: skip
    return bench[1].Point(**known | changes)


STEPS = ("latency=linear", "latency.base_s=0.01", "scheduler.async_scheduling=false")


def test_a_closed_loop_of_equal_steps_is_what_hand_says(bench):
    """A prompt comes when a step ends, and is computed in the next: first token after 10 ms, and each other after 10 more.
    Whoever comes in the middle of a step waits for its end first, as most do whose starts are spread."""
    in_step, spread = bench[0].results_of(made_up(bench), STEPS)
    assert in_step.start == "in step" and spread.start == "spread"
    assert in_step.errors.ttft == pytest.approx(-0.5) and in_step.errors.tpot == pytest.approx(0, abs=1e-9)
    # 4 requests in 0.11 s against 4 in 0.12 s
    assert in_step.errors.throughput == pytest.approx(0.12 / 0.11 - 1)
    assert spread.errors.tpot == pytest.approx(0, abs=1e-9)
    assert -0.5 - 1e-9 <= spread.errors.ttft < 0


def test_throughput_of_a_closed_loop_follows_from_its_times_and_else_is_as_told(bench):
    assert bench[0].measured(made_up(bench)).throughput == pytest.approx(4 * 11 / (0.02 + 10 * 0.01))
    assert bench[0].measured(made_up(bench, throughput=77.0)).throughput == 77.0


def test_all_at_once_has_the_throughput_from_first_arrival_to_last_token(bench):
    """Eight requests, four seats: two rounds of 11 steps, 88 tokens in 0.22 s."""
    point = made_up(bench, in_flight=None, requests=8, throughput=400.0)
    (result,) = bench[0].results_of(point, STEPS)
    assert result.errors.throughput == pytest.approx(0) and result.errors.ttft == pytest.approx((0.01 + 0.12) / 2 / 0.02 - 1)


def test_the_table_has_bias_mean_and_percentile_of_each_group(bench):
    point = made_up(bench)
    results = [bench[0].Result(point, "in step", bench[0].Figures(*[error] * 3)) for error in (-0.1, 0.3)]
    cell = f"+10.0, 20.0, {np.quantile([10, 30], 0.9):.1f}"
    assert bench[0].table(results)[2:] == [f"| shipped | made up | 2 | in step | {cell} | {cell} | {cell} |"]


def test_every_point_is_played_or_left_out_with_a_reason(bench):
    shared("reference", "published_gpustack.csv")
    points, left_out = bench[0].points_of(shared("profiles", "aiconfigurator", "silicon_sample.csv").parents[2])
    assert len(points) + left_out.total() == 2586 + 398
    assert sum(point.shipped for point in points) == 42 and len({point.name for point in points}) == len(points)


@pytest.mark.parametrize(("tokens", "seats"), [((1024, 128), 64), ((2048, 256), 64), ((4096, 512), 16)])
def test_time_per_output_token_on_an_h100_by_the_shipped_file(bench, tokens: tuple[int, int], seats: int):
    """TensorRT-LLM with Llama-3.1-8B, to which nothing was fitted; all 42 are in docs/accuracy.md."""
    points, _ = bench[1].read_silicon(shared("profiles", "aiconfigurator", "silicon_sample.csv"))
    (point,) = (each for each in points if each.shipped and (each.prompt, each.output, each.in_flight) == (*tokens, seats))
    in_step, spread = bench[0].results_of(point, ["latency=fitted"])
    assert -0.05 < in_step.errors.tpot < 0.10 and -0.10 < in_step.errors.throughput < 0.10
    assert spread.errors.ttft < in_step.errors.ttft
