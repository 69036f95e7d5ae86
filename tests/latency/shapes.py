"""Models and GPUs as the configuration gives them."""

from importlib.resources import files

import yaml

from twin.memory import Gpu, ModelShape, gpu_from, model_shape


def options(group: str, name: str) -> dict:
    return yaml.safe_load((files("conf") / group / f"{name}.yaml").read_text())


def model(name: str = "llama3.1-8b", **changes: object) -> ModelShape:
    return model_shape({**options("model", name), **changes})


def gpu(name: str = "h100") -> Gpu:
    return gpu_from(options("gpu", name))
