"""Tables with a row a step: what `engine profile` and `engine run` write, and step logs of vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.calibrate.readers.frames import (
    checked_seconds,
    is_parquet,
    numbers,
    require,
    row_word,
    seconds,
    whole_numbers,
)
from twin.calibrate.steps import GRID, RUN, About, Steps, Swaps, feature_rows
from twin.core.batch import Features

if TYPE_CHECKING:
    from pandas import DataFrame

METADATA_KEY = b"twin.profile"  # of a Parquet file of engine profile
SIDECAR = ".meta.json"  # behind the name of a CSV file of engine profile
PROFILE = (*Features._fields, "duration_s")
ENGINE_RUN = (*Features._fields, "duration_s", "device_s", "swapped_in_blocks", "swapped_out_blocks", "repeat")
VLLM_LOG = (
    "start_s", "end_s", "gap_before_s", "sequences", "prefill_seqs", "prefill_tokens", "decode_tokens", "prefill_ctx",
    "decode_context", "context_tokens",
)  # fmt: skip
LONGEST_GAP_S = 0.005  # between steps of a busy server; longer ones are idling
SWAP_COLUMNS = ("swapped_out_blocks", "swapped_in_blocks", "copies", "settled_s")


def read_profile(frame: DataFrame, path: Path) -> Steps:
    """A profile table (docs/profile.md). Rows marked as contaminated are left out, those of swaps stand apart."""
    require(frame, PROFILE, path, "a table of engine profile")
    features = compositions(frame, path)
    duration_s = seconds(frame, "duration_s", path)
    about = profile_metadata(path)
    marked = frame["contaminated"].to_numpy(bool) if "contaminated" in frame else np.zeros(len(frame), bool)
    kinds = frame["kind"] if "kind" in frame else None
    swaps = (kinds == "swap").to_numpy() if kinds is not None else np.zeros(len(frame), bool)
    keep = ~marked & ~swaps
    if not keep.any():
        raise ValueError(
            f"{path}: {marked.sum()} of {len(frame)} rows are contaminated, and no other measures a step; measure on "
            f"a quiet machine"
        )
    host_s = None
    if "device_s" in frame:
        host_s = (duration_s - seconds(frame, "device_s", path))[keep]
    model, device = about.get("model"), about.get("device_name") or about.get("device")
    name = f"steps of {model} on {device} (engine profile)" if model else f"steps of {path.name}"
    date = f", {str(about['date'])[:10]}" if about.get("date") else ""
    return Steps(
        features=features[keep],
        seconds=duration_s[keep],
        runs=(path.stem,),
        run=np.zeros(int(keep.sum()), int),
        kind=GRID,
        source=f"{name}{date}",
        about=_about_profile(about),
        host_s=host_s,
        swaps=_swaps(frame, path, swaps & ~marked, about),
        contaminated=int(marked.sum()),
        notes=() if about else (f"{path}: says nothing of the model and the device that it is from",),
    )


def compositions(frame: DataFrame, path: Path) -> np.ndarray:
    """(rows, 7) the columns of `Features`: whole numbers (but for the pairs), and parts that add up."""
    whole = [name for name in Features._fields if name != "prefill_attention"]
    columns = {name: (whole_numbers if name in whole else numbers)(frame, name, path) for name in Features._fields}
    wrong = columns["sequences"] != columns["decode_tokens"] + columns["prefill_sequences"]
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{row_word(path, row)}: {columns['sequences'][row]:g} sequences, but {columns['decode_tokens'][row]:g} decodes "
            f"(decode_tokens) and {columns['prefill_sequences'][row]:g} parts of prompts (prefill_sequences)"
        )
    return feature_rows(columns.values())


def profile_metadata(path: Path) -> dict[str, Any]:
    """What the table says of itself, in the Parquet file or beside the CSV file; empty if nothing."""
    try:
        if is_parquet(path):
            from pyarrow import parquet

            text = (parquet.read_schema(path).metadata or {}).get(METADATA_KEY)
        else:
            beside = path.with_name(path.name + SIDECAR)
            text = beside.read_bytes() if beside.is_file() else None
        found = {} if text is None else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: its metadata is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: its metadata must be a table of names and values")
    return found


def _about_profile(found: dict[str, Any]) -> About:
    return About(
        model=found.get("model"),
        shape=found.get("shape"),
        gpu="cpu" if found.get("device") == "cpu" else found.get("device_name"),
        gpus=1,
        max_num_seqs=found.get("max_num_seqs"),
        max_num_batched_tokens=found.get("max_num_batched_tokens"),
    )


def _swaps(frame: DataFrame, path: Path, rows: np.ndarray, about: dict[str, Any]) -> Swaps | None:
    if not rows.any() or not about.get("block_bytes") or any(name not in frame for name in SWAP_COLUMNS):
        return None
    chosen = frame[rows]
    out, into, copies, settled_s = (numbers(chosen, name, path) for name in SWAP_COLUMNS)
    return Swaps(out + into, copies, np.maximum(settled_s, numbers(chosen, "duration_s", path)), int(about["block_bytes"]))


def read_engine_run(frame: DataFrame, path: Path) -> Steps:
    """steps.parquet of an engine's run: its own steps, in their order. Those that swapped are left out."""
    if "device_s" not in frame:
        raise ValueError(f"{path}: these are the simulator's steps, not measured ones; an engine's have the column device_s")
    require(frame, ENGINE_RUN, path, "steps.parquet of engine run")
    features = compositions(frame, path)
    moved = numbers(frame, "swapped_in_blocks", path) + numbers(frame, "swapped_out_blocks", path)
    keep = (features[:, 0] > 0) & (moved == 0)  # a step of no sequences only preempted
    duration_s = numbers(frame, "duration_s", path)
    checked_seconds(np.where(keep, duration_s, 1.0), "duration_s", path)
    name = path.parent.name or path.stem
    config = _config(path.parent / "config.yaml")
    about = _about_run(config)
    return Steps(
        features=features[keep],
        seconds=duration_s[keep],
        runs=(name,),
        run=np.zeros(int(keep.sum()), int),
        kind=RUN,
        source=f"steps of an engine's run of {about.model or 'a model'}",
        about=about,
        host_s=(duration_s - numbers(frame, "device_s", path))[keep],
    )


def _config(path: Path) -> dict[str, Any]:
    import yaml

    found = yaml.safe_load(path.read_text()) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _about_run(config: dict[str, Any]) -> About:
    model, gpu, scheduler = (config.get(section) or {} for section in ("model", "gpu", "scheduler"))
    return About(
        model=model.get("name"),
        shape=dict(model) or None,
        gpu=gpu.get("name"),
        gpus=(config.get("parallel") or {}).get("tensor_parallel_size"),
        max_num_seqs=scheduler.get("max_num_seqs"),
        max_num_batched_tokens=scheduler.get("max_num_batched_tokens"),
    )


def read_vllm_log(frame: DataFrame, path: Path) -> Steps:
    """steps.csv of a vLLM whose scheduler was logged: start and end of each step, and the gap before it.

    A step takes until the next one can begin: its duration and the usual gap are one. Longer gaps are idling.
    """
    require(frame, VLLM_LOG, path, "a step log of vLLM")
    start_s, end_s, gap_s = (numbers(frame, name, path) for name in ("start_s", "end_s", "gap_before_s"))
    usual = gap_s[(gap_s > 0) & (gap_s < LONGEST_GAP_S)]
    gap = float(np.median(usual)) if len(usual) else 0.0
    duration_s = checked_seconds(end_s - start_s + gap, "end_s - start_s", path)
    sequences, prefill, decodes, context, of_decodes, pairs, parts = (
        numbers(frame, name, path)
        for name in (
            "sequences", "prefill_tokens", "decode_tokens", "context_tokens", "decode_context", "prefill_ctx",
            "prefill_seqs",
        )
    )  # fmt: skip
    found = _json(path.with_name("meta.json"))
    version = f" {found['vllm']}" if found.get("vllm") else ""
    return Steps(
        features=feature_rows((sequences, prefill, decodes, context, context - of_decodes, pairs, parts)),
        seconds=duration_s,
        runs=(path.parent.name,),
        run=np.zeros(len(frame), int),
        kind=RUN,
        source=f"logged steps of vLLM{version}",
        about=About(
            model=found.get("model"),
            gpu="cpu" if "cpu" in str(found.get("torch")) else None,
            max_num_seqs=found.get("max_num_seqs"),
            max_num_batched_tokens=found.get("max_num_batched_tokens"),
        ),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
    except ValueError:
        raise ValueError(f"{path}: not JSON") from None
    return found if isinstance(found, dict) else {}
