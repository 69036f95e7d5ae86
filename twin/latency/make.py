"""The latency model a user named."""

import inspect
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.latency.model import LatencyModel
from twin.latency.parameters import check_names

if TYPE_CHECKING:
    from twin.memory import Gpu, ModelShape

NAMES = ("linear", "roofline", "fitted", "table", "replay")
SAME_SHAPE = {"llama3-8b": "llama3.1-8b"}  # models that differ in nothing a step's time depends on


def make_latency(
    name: str,
    parameters: Mapping[str, Any],
    model: "ModelShape",
    gpu: "Gpu",
    tensor_parallel_size: int = 1,
    notes: list[str] | None = None,
    seed: int = 0,
) -> LatencyModel:
    """The model `name` with the user's `parameters` (None counts as not given); `notes` collects what he should know.

    `seed` is that of step noise (latency.noise=true).

    `fitted` without `path` takes the file shipped for this model and GPU; where there is none, the roofline, with a note.
    """
    given = {key: value for key, value in parameters.items() if value is not None and key != "name"}
    where = f"latency={name}"
    if name == "linear":
        from twin.latency.linear import LinearLatency

        check_names(where, given, parameters_of(LinearLatency))
        return LinearLatency(**given)
    if name == "roofline":
        return make_roofline(given, model, gpu, tensor_parallel_size)
    if name == "fitted":
        return with_noise(given, make_fitted(given, model, gpu, tensor_parallel_size, notes), seed, notes)
    if name == "table":
        from twin.latency.table import TableLatency
        from twin.latency.table_files import read_kernel_tables

        check_names(where, given, ["path", *parameters_of(TableLatency)[1:]], required=["path"])
        if notes is not None and not (given.get("host_s") or given.get("mixed_s")):
            notes.append("latency=table: kernels alone; without host_s and mixed_s a step is 1 to 50 % too short")
        return TableLatency(read_kernel_tables(given.pop("path"), model.layers), **given)
    if name == "replay":
        from twin.latency.replay import ReplayLatency
        from twin.latency.replay_files import read_durations

        check_names(where, given, ["path"], required=["path"])
        return ReplayLatency(read_durations(given["path"]), str(given["path"]))
    raise ValueError(f"latency={name}: no such latency model; there are {', '.join(NAMES)}")


def parameters_of(kind: type) -> list[str]:
    """Names of a constructor's parameters."""
    return list(inspect.signature(kind).parameters)


def make_roofline(given: Mapping[str, Any], model: "ModelShape", gpu: "Gpu", gpus: int) -> LatencyModel:
    from twin.latency.roofline import RooflineLatency

    allowed = [name for name in parameters_of(RooflineLatency)[2:] if name != "tensor_parallel_size"]
    check_names("latency=roofline", given, allowed)
    return RooflineLatency(model, gpu, tensor_parallel_size=gpus, **given)


def make_fitted(
    given: Mapping[str, Any], model: "ModelShape", gpu: "Gpu", gpus: int, notes: list[str] | None
) -> LatencyModel:
    check_names("latency=fitted", given, ["path", "noise"])
    if "path" in given:
        fitted = read_fitted(find_fitted(str(given["path"])))
        made_for = fitted.describe()
        about = {"model": SAME_SHAPE.get(model.name, model.name), "gpu": gpu.name, "tensor_parallel_size": gpus}
        for what, name in about.items():
            if made_for.get(what, 1 if what == "tensor_parallel_size" else None) not in (None, name) and notes is not None:
                notes.append(f"latency.path: fitted for {what}={made_for.get(what, 1)}, and the run has {what}={name}")
        return fitted
    whom = f"model={model.name} gpu={gpu.name}"
    several = f"_tp{gpus}" if gpus > 1 else ""
    shipped = fitted_folder() / f"{SAME_SHAPE.get(model.name, model.name)}_{gpu.name}{several}.yaml"
    reason = None
    if not shipped.is_file():
        reason = f"no measured steps are shipped for {whom}"
        if gpus > 1:
            reason += f" parallel.tensor_parallel_size={gpus}"
    elif model.quantization:
        reason = f"the steps shipped for {whom} were measured without quantization"
    elif model.kv_cache_dtype not in ("auto", model.dtype):
        reason = f"the steps shipped for {whom} were measured with a {model.dtype} KV cache"
    if reason is None:
        return read_fitted(shipped)
    if notes is not None:
        notes.append(f"latency=fitted: {reason}; step times come from the roofline instead, which nothing measured backs")
    return make_roofline({}, model, gpu, gpus)


def with_noise(given: Mapping[str, Any], made: LatencyModel, seed: int, notes: list[str] | None) -> LatencyModel:
    """The model with the scatter that its file states, if that is asked for."""
    from twin.latency.fitted import FittedLatency
    from twin.latency.noise import NoisyLatency

    noise = given.get("noise", False)
    if not isinstance(noise, bool):
        raise ValueError(f"latency.noise={noise}: must be true or false")
    if not noise:
        return made
    spread = made.spread if isinstance(made, FittedLatency) else 0.0
    if spread:
        return NoisyLatency(made, spread, seed)
    if notes is not None:
        notes.append(f"latency.noise: nobody measured how steps scatter about this {made.name}; they are without noise")
    return made


def fitted_folder() -> Path:
    """Where the shipped fits lie, one file `MODEL_GPU.yaml` each."""
    return Path(str(files("conf"))) / "latency" / "fitted"


def find_fitted(path: str) -> Path:
    """The file at `path`, or the shipped one of that name."""
    for candidate in (Path(path), fitted_folder() / path, fitted_folder() / f"{path}.yaml"):
        if candidate.is_file():
            return candidate
    shipped = ", ".join(sorted(file.stem for file in fitted_folder().glob("*.yaml")))
    raise ValueError(f"latency.path={path}: no such file; give one that twin calibrate wrote, or of {shipped}")


def read_fitted(path: Path) -> LatencyModel:
    import yaml

    from twin.latency.fitted import FittedLatency

    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must be a table with coefficients, range and source")
    return FittedLatency(content, str(path))
