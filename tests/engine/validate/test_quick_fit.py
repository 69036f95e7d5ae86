"""A latency model from steps: the coefficients come back, none is negative, the sum of all steps is right."""

import numpy as np
import pytest
from scipy.optimize import nnls

from engine.errors import EngineError
from engine.validate.quick_fit import content_of, fit_steps, non_negative
from engine.validate.steps import Step
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency

TRUTH = FittedLatency(
    {
        "coefficients": {"base_s": 0.002, "mixed_s": 0.001, "per_seq_s": 1e-4, "per_prefill_token_s": 5e-5,
                         "per_decode_context_token_s": 3e-7, "per_prefill_attention_s": 6e-8},
        "range": {}, "source": "made up",
    }
)  # fmt: skip


def steps(count: int = 400, noise: float = 0.0) -> list[Step]:
    draw = np.random.default_rng(1)
    made = []
    for _ in range(count):
        decodes, chunk = int(draw.integers(1, 17)), int(draw.integers(0, 3)) * int(draw.integers(8, 400))
        context = int(decodes * draw.integers(20, 800))
        before = int(draw.integers(0, 300)) if chunk else 0
        features = Features(decodes + (chunk > 0), chunk, decodes, context + before + chunk, (before + chunk) * (chunk > 0),
                            chunk * (before + chunk / 2), int(chunk > 0))  # fmt: skip
        factor = float(draw.lognormal(-noise * noise / 2, noise)) if noise else 1.0  # of mean 1
        made.append(Step(features, 0.0, TRUTH.step_s(features) * factor))
    return made


def test_the_coefficients_come_back():
    model = fit_steps(steps(), model="tiny", gpu="cpu", source="a test")
    for name, value in TRUTH.coefficients.items():
        assert model.coefficients[name] == pytest.approx(value, rel=1e-6, abs=1e-12), name
    assert model.spread < 1e-9
    assert model.range["sequences"] == (1, 17) and model.range["decode_tokens"] == (1, 16)
    assert FittedLatency(content_of(model)).describe() == model.describe()


def test_noise_moves_no_mean_and_is_kept_as_the_spread():
    """Weights from the measured durations would favour steps that happened to be short: 9 % too little at this noise."""
    noisy = steps(6000, noise=0.3)
    model = fit_steps(noisy)
    predicted_s = sum(model.step_s(step.features) for step in noisy)
    assert predicted_s == pytest.approx(sum(step.duration_s for step in noisy), rel=0.005)
    assert model.spread == pytest.approx(np.sqrt(np.exp(0.09) - 1), rel=0.05)  # of a lognormal with sigma 0.3


def test_steps_that_moved_blocks_do_not_count():
    moved = [Step(step.features, 0.0, 9.0, moved=True) for step in steps(50)]
    assert fit_steps([*steps(), *moved]).coefficients == fit_steps(steps()).coefficients


def test_too_few_steps_are_told():
    with pytest.raises(EngineError, match="15 steps are too few to fit 8 terms to"):
        fit_steps(steps(15))


def test_a_line_that_would_fall_is_flat():
    """Of 3, 2, 1 at 0, 1, 2: the slope would be -1; without one the mean fits best."""
    found = non_negative(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    assert found == pytest.approx([2.0, 0.0])


@pytest.mark.parametrize("seed", range(30))
def test_least_squares_as_scipy_has_them(seed: int):
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(40, 7)) + draw.random()
    matrix[:, 5] = 0
    target = draw.normal(size=40) + 1
    ours, theirs = non_negative(matrix, target), nnls(matrix, target)[0]
    assert (ours >= 0).all() and ours == pytest.approx(theirs, abs=1e-8)


def test_two_columns_of_which_one_is_a_multiple_of_the_other():
    column = np.array([1.0, 2.0, 3.0])
    found = non_negative(np.stack([column, 2 * column], axis=1), 4 * column)
    assert found[0] + 2 * found[1] == pytest.approx(4.0)
