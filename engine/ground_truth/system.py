"""The simulated system that a recording is compared with: its settings, and fresh policies under its version's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.ground_truth.recording import Recording, RecordingError
from engine.oracle.versions import BASE, DIFFERENCES
from twin.core.limits import Rules
from twin.latency.model import LatencyModel
from twin.policy import Policy
from twin.policy_assembly import assemble
from twin.policy_parameters import PolicyFileError
from twin.predictor import Predictor
from twin.sim.simulation import Setup


class Told(Predictor):
    """The predictions that the requests of a recording came with."""

    def __init__(self, predictions: Mapping[str, float]) -> None:
        self.predictions = predictions

    def predict(self, request: Any, output_tokens: int | None) -> float | None:
        return self.predictions.get(request.id)


def setup_of(recording: Recording, latency: LatencyModel) -> Setup:
    """Nothing in it has served anybody yet. Raises RecordingError for a policy that there is not, or that cannot be had."""
    settings = recording.settings
    predictions = {row.id: row.predicted_output for row in recording.requests if row.predicted_output is not None}
    return Setup(
        limits=settings.limits,
        policy=_policy(recording),
        latency=latency,
        rules=Rules(**rules_of(recording)),  # type: ignore[arg-type]
        predictor=Told(predictions) if predictions else None,
    )


def _policy(recording: Recording) -> Policy:
    own = dict(recording.settings.policy)
    name = own.pop("name")
    try:
        return assemble(name, own).policy
    except PolicyFileError as error:
        raise RecordingError(f"{recording.folder}: its policy: {error}") from error


def rules_of(recording: Recording) -> dict[str, bool]:
    """In which the version that was recorded differs from the newest that is known; none of one that is not known."""
    return DIFFERENCES.get(short_version(recording), {})


def short_version(recording: Recording) -> str:
    """ "0.32"; the newest that is known where the recording does not say."""
    whole = recording.settings.vllm
    return BASE if whole is None else ".".join(whole.split(".")[:2])


def known_version(recording: Recording) -> bool:
    return short_version(recording) in DIFFERENCES
