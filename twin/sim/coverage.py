"""Was the latency model asked for what it was measured on? Told once for a run, with how much of it was beyond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twin.latency.model import LatencyModel


def steps_outside(latency: LatencyModel, steps: Mapping[str, np.ndarray]) -> list[str]:
    """A line for each feature of which some steps lay outside the range that the model was fitted or measured on.

    A feature that a step does not have (no prefill, say) is not outside. A row of equal steps counts as its last.
    """
    values = {
        **steps,
        "tokens": steps["prefill_tokens"] + steps["decode_tokens"],
        "decode_context_tokens": np.where(steps["prefill_tokens"] > 0, 0, steps["context_tokens"]),
    }
    values["mean_decode_context"] = values["decode_context_tokens"] / np.maximum(steps["decode_tokens"], 1)
    total = int(steps["repeat"].sum())
    notes = []
    for name, (least, most) in latency.ranges().items():
        column = values.get(name)
        if column is None:
            continue
        beyond = (column > 0) & ((column < least) | (column > most))
        count = int(steps["repeat"][beyond].sum())
        if count:
            low, high = column[beyond].min(), column[beyond].max()
            notes.append(
                f"latency={latency.name}: {name} of {100 * count / total:.2g} % of the steps outside the range "
                f"{least:g} to {most:g} that it was fitted on: {low:,.6g} to {high:,.6g}; there it extrapolates"
            )
    return notes
