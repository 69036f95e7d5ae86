"""Which kind of file a path is, by what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.calibrate.readers import splitwise, step_tables
from twin.calibrate.readers.aiconfigurator import is_aiconfigurator, read_aiconfigurator
from twin.calibrate.readers.composed import compose, extent
from twin.calibrate.readers.frames import read_frame, require
from twin.calibrate.steps import GRID, About, Steps
from twin.latency.table import KernelTables
from twin.latency.table_files import COLUMNS as KERNEL_FILES
from twin.latency.table_files import read_kernel_tables
from twin.memory import plan_memory

if TYPE_CHECKING:
    from pandas import DataFrame

    from twin.memory import Gpu, ModelShape

STEP_FILES = ("steps.parquet", "steps.csv", "profile.parquet", "perf_model.csv")  # that a folder may hold
KNOWN = (
    "a table of engine profile, steps.parquet of an engine's run, a step log of vLLM (steps.csv), perf_model.csv of "
    "splitwise-sim, a folder of kernel tables (dense.csv, per_sequence.csv, attention.csv), or one of aiconfigurator (gemm, "
    "attention)"
)


@dataclass(frozen=True)
class Wanted:
    """What the user says the file is of; the kernels of some tables are put together for it."""

    model: ModelShape
    gpu: Gpu
    gpus: int
    model_given: bool  # whether he said so, or it is the default
    gpu_given: bool


def read(path: Path, wanted: Wanted) -> Steps:
    """The steps of a file or folder. Raises ValueError, in one line, for what is none of those that are known."""
    if path.is_dir():
        return _read_folder(path, wanted)
    if not path.is_file():
        raise ValueError(f"{path}: no such file or folder")
    frame = read_frame(path)
    columns = set(map(str, frame.columns))
    if {"prompt_time", "token_time"} & columns:
        _need(path, wanted)
        return splitwise.read_splitwise(frame, path, wanted.model.name, wanted.gpu.name, wanted.gpus)
    if {"prefill_ctx", "decode_context", "gap_before_s", "end_s"} & columns and "decode_context_tokens" not in columns:
        return _log_or_profile(frame, path, columns)
    if {"used_blocks", "free_blocks"} & columns:
        return step_tables.read_engine_run(frame, path)
    if {*step_tables.PROFILE} & columns:
        return step_tables.read_profile(frame, path)
    require(frame, step_tables.PROFILE, path, f"steps; what can be read: {KNOWN}")
    raise AssertionError("none of the columns is there")


def _log_or_profile(frame: DataFrame, path: Path, columns: set[str]) -> Steps:
    """Both have the context of the decodes; only a log has ends and gaps."""
    if {"end_s", "gap_before_s", "prefill_ctx"} & columns:
        return step_tables.read_vllm_log(frame, path)
    return step_tables.read_profile(frame, path)


def _read_folder(path: Path, wanted: Wanted) -> Steps:
    if any((path / name).is_file() for name in KERNEL_FILES):
        _need(path, wanted)
        tables = read_kernel_tables(path, wanted.model.layers)
        meta = _meta(path.parent / "meta.yaml")
        gpus = int(path.name[2:]) if path.name.startswith("tp") and path.name[2:].isdigit() else 1
        version = f" (vLLM {meta['vllm_version']})" if "vllm_version" in meta else ""
        about = About(model=meta.get("model"), gpu=meta.get("gpu"), gpus=gpus)
        return _composed(tables, f"steps put together from kernel tables of LLMServingSim{version}", about, wanted)
    if is_aiconfigurator(path):
        _need(path, wanted)
        tables, version, device = read_aiconfigurator(path, wanted.model, wanted.gpu, wanted.gpus)
        return _composed(
            tables, f"steps put together from kernel tables of aiconfigurator (vLLM {version})", About(gpu=device), wanted
        )
    for name in STEP_FILES:
        if (path / name).is_file():
            return read(path / name, wanted)
    raise ValueError(f"{path}: nothing in this folder that could be read; what can be read: {KNOWN}")


def _need(path: Path, wanted: Wanted) -> None:
    """Tables of many models, or of kernels, need to be told which model on which GPU."""
    missing = [name for name, given in (("model", wanted.model_given), ("gpu", wanted.gpu_given)) if not given]
    if missing:
        raise ValueError(
            f"{path}: says nothing of whole steps of one model; give {' and '.join(f'{name}=' for name in missing)}"
        )


def _meta(path: Path) -> dict[str, Any]:
    import yaml

    found = yaml.safe_load(path.read_text()) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _composed(tables: KernelTables, source: str, about: About, wanted: Wanted) -> Steps:
    plan = plan_memory(wanted.model, wanted.gpu, tensor_parallel_size=wanted.gpus)
    features, seconds = compose(tables, extent(tables, plan.tokens))
    return Steps(
        features=features,
        seconds=seconds,
        runs=(Path(tables.source).name,),
        run=np.zeros(len(seconds), int),
        kind=GRID,
        source=source,
        about=about,
        notes=("kernels alone: what the host adds and, over several GPUs, what they send each other may be missing",),
    )
