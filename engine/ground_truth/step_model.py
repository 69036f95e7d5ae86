"""The latency model of recorded runs.

One run alone says little of how a step's time bends with the number of its tokens: as long as all batches are about
equally full, "beyond 32 tokens" and "tokens of prompts" are the same steps, and which of the two gets the blame is chance.
Only where whole runs of other loads can be held out are such terms (knees, tiles) tried; one run gets what every fit has,
and costs of a step with prefill and of a part of a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import EngineError
from engine.ground_truth.measured import measured_steps
from engine.ground_truth.recording import Recording, RecordingError
from engine.validate.fit import fit_runs
from twin.calibrate.steps import About
from twin.calibrate.terms import OPTIONAL, Term
from twin.latency.fitted import FittedLatency

OF_ONE_RUN = (Term("mixed_s"), Term("per_prefill_seq_s"))


class StepModel:
    """Fitted to some runs."""

    def __init__(self, runs: Sequence[Recording]) -> None:
        """Raises RecordingError where their steps are too few."""
        self.fitted_to = tuple(run.name for run in runs)
        settings = runs[0].settings
        about = About(
            model=settings.about.get("model"),
            gpu="cpu" if "cpu" in str(settings.about.get("torch")) else None,
            max_num_seqs=settings.limits.max_num_seqs,
            max_num_batched_tokens=settings.limits.max_num_batched_tokens,
        )
        steps = sum(len(run.steps) for run in runs)
        version = f" {settings.vllm}" if settings.vllm else ""
        source = f"{steps:,} logged steps of vLLM{version}: {', '.join(self.fitted_to)}"
        optional = OPTIONAL if len(runs) > 1 else OF_ONE_RUN
        try:
            model, content = fit_runs([(run.name, measured_steps(run)) for run in runs], about, source, optional)
        except EngineError as error:
            raise RecordingError(f"{', '.join(self.fitted_to)}: {error}") from error
        self.model: FittedLatency = model
        self.content: dict[str, Any] = content

    @property
    def held_out_mape(self) -> float:
        """Of steps of its own runs, each foretold by a fit to the other runs, or to other tenths of the only one."""
        return float(self.content["error"]["all"]["mape"]) / 100
