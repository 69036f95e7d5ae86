"""Whole-model times in the layout of splitwise-sim's perf_model.csv (milliseconds).

A row is one run: a batch of equal prompts in one step, then decodes. `prompt_time` is that step's; `token_time` is the mean
of the decodes', whose context grows meanwhile. How many tokens came is (e2e_time - prompt_time) / token_time: some runs
ended before the `token_size` that was asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twin.calibrate.readers.frames import checked_seconds, numbers, require
from twin.calibrate.steps import GRID, About, Steps, feature_rows

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    "model", "hardware", "tensor_parallel", "prompt_size", "batch_size", "token_size", "prompt_time", "token_time",
    "e2e_time",
)  # fmt: skip
WHOLE_RUN = 1.5  # times token_size: if more tokens than this seem to have come, the end-to-end time is of something else


def read_splitwise(frame: DataFrame, path: Path, model: str | None, gpu: str | None, gpus: int) -> Steps:
    """The rows of one model on so many GPUs of one kind. Raises ValueError with what there is where there are none."""
    require(frame, COLUMNS, path, "a Splitwise table")
    prompt, batch, asked, prompt_ms, token_ms, e2e_ms = (numbers(frame, name, path) for name in COLUMNS[3:])
    prompt_s = checked_seconds(prompt_ms * 1e-3, "prompt_time", path)
    token_s = checked_seconds(token_ms * 1e-3, "token_time", path)
    on = np.array([_same_gpu(str(hardware), gpu) for hardware in frame["hardware"]])
    named = (
        (frame["model"].str.lower() == str(model).lower()).to_numpy() & on & (frame["tensor_parallel"] == gpus).to_numpy()
    )
    if not named.any():
        there = frame[["model", "hardware", "tensor_parallel"]].drop_duplicates()
        words = ", ".join(f"{row.model} on {row.tensor_parallel} {row.hardware}" for row in there.itertuples())
        raise ValueError(f"{path}: no rows of model={model} on {gpus} gpu={gpu}; there are {words}")
    came = (e2e_ms - prompt_ms) / token_ms
    sane = named & (came <= WHOLE_RUN * asked)
    context = prompt + np.minimum(came, asked) / 2  # mean over the decodes
    zero = np.zeros_like(batch)
    prefills = feature_rows((batch, batch * prompt, zero, batch * prompt, batch * prompt, batch * prompt**2 / 2, batch))
    decodes = feature_rows((batch, zero, batch, batch * context, zero, zero, zero))
    left_out = int((named & ~sane).sum())
    note = f"{path}: {left_out} rows left out, whose end-to-end time is that of many times the tokens asked for"
    return Steps(
        features=np.concatenate((prefills[sane], decodes[sane])),
        seconds=np.concatenate((prompt_s[sane], token_s[sane])),
        runs=(path.stem,),
        run=np.zeros(2 * int(sane.sum()), int),
        kind=GRID,
        source=f"whole-model steps of splitwise-sim ({', '.join(sorted(set(frame['hardware'][named])))}, TP{gpus})",
        about=About(model=model, gpu=gpu, gpus=gpus),
        contaminated=2 * left_out,
        notes=(note,) if left_out else (),
    )


def _same_gpu(hardware: str, gpu: str | None) -> bool:
    """a100-80gb is a100-80g, h100-80gb is h100; variants such as a power cap are not."""
    name = hardware.lower().removesuffix("b")
    return gpu is not None and name in (gpu, f"{gpu}-80g")
