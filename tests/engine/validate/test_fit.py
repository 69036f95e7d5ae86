"""A latency model from the steps of runs foretells what they were made from."""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError
from engine.validate.fit import fit_runs
from engine.validate.steps import Step
from twin.calibrate.save import latency_file
from twin.calibrate.steps import About
from twin.core.batch import Features
from twin.latency.fitted import FittedLatency
from twin.latency.make import read_fitted

TRUTH = FittedLatency(
    {
        "coefficients": {"base_s": 0.002, "per_prefill_token_s": 5e-5, "per_decode_token_s": 1e-4,
                         "per_decode_context_token_s": 3e-7, "per_prefill_attention_s": 6e-8},
        "range": {}, "source": "made up",
    }
)  # fmt: skip
ABOUT = About(model="tiny", gpu="cpu", max_num_seqs=16, max_num_batched_tokens=2048)


def steps(count: int = 400) -> list[Step]:
    """Decodes, half of them with a chunk of a prompt beside; each takes what the truth says."""
    draw = np.random.default_rng(1)
    made = []
    for _ in range(count):
        decodes, chunk = int(draw.integers(1, 16)), int(draw.integers(0, 2)) * int(draw.integers(8, 800))
        before = int(draw.integers(0, 300)) if chunk else 0
        context = int(decodes * draw.integers(20, 800))
        features = Features(decodes + (chunk > 0), chunk, decodes, context + before + chunk, before + chunk,
                            chunk * (before + chunk / 2), int(chunk > 0))  # fmt: skip
        made.append(Step(features, 0.0, TRUTH.step_s(features)))
    return made


def fitted(measured: list[Step]) -> FittedLatency:
    half = len(measured) // 2
    return fit_runs([("burst", measured[:half]), ("load 0.5", measured[half:])], ABOUT, "a test")[0]


def test_steps_that_are_sums_of_terms_are_foretold():
    """To the four digits that a file's coefficients have."""
    model = fitted(steps())
    for step in steps(50):
        assert model.step_s(step.features) == pytest.approx(step.duration_s, rel=2e-3)
    assert model.spread < 1e-3 and model.range["sequences"] == (1, 16)
    assert (model.about["model"], model.about["gpu"], model.about["source"]) == ("tiny", "cpu", "a test")


def test_the_file_makes_the_same_model(tmp_path: Path):
    """Of steps that cost more beyond 256 tokens: the number of tokens at a knee is a number in the file too."""
    bent = [step._replace(duration_s=step.duration_s + 1e-4 * max(0, _tokens(step) - 256)) for step in steps()]
    model, content = fit_runs([("burst", bent), ("load 0.5", bent)], ABOUT, "a test")
    assert model.knees
    (tmp_path / "latency.yaml").write_text(latency_file(content))
    assert read_fitted(tmp_path / "latency.yaml").describe() == model.describe()


def _tokens(step: Step) -> int:
    return step.features.prefill_tokens + step.features.decode_tokens


def test_steps_that_moved_blocks_do_not_count():
    moved = [Step(step.features, 0.0, 9.0, moved=True) for step in steps(50)]
    one, other = (
        fit_runs([("burst", each), ("load 0.5", steps())], ABOUT, "a test")[1] for each in (steps(), [*moved, *steps()])
    )
    assert one == other


def test_too_few_steps_are_told():
    with pytest.raises(
        EngineError, match=r"latency: .* too few .*; give more requests, or a fitted model: latency.path=FILE"
    ):
        fit_runs([("burst", steps(3)), ("load 0.5", steps(3))], ABOUT, "a test")
    with pytest.raises(EngineError, match="no step has been measured"):
        fit_runs([("burst", []), ("load 0.5", [])], ABOUT, "a test")
