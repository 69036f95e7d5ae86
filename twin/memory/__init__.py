"""Memory arithmetic: the shape of a model, the size of a GPU, and the KV blocks that fit."""

from twin.memory.gpu import Gpu, gpu_from
from twin.memory.plan import MemoryPlan, activation_peak, plan_memory, requests_in, usable_blocks
from twin.memory.shape import ModelShape, from_huggingface, model_shape, read_huggingface

__all__ = [
    "Gpu",
    "MemoryPlan",
    "ModelShape",
    "activation_peak",
    "from_huggingface",
    "gpu_from",
    "model_shape",
    "plan_memory",
    "read_huggingface",
    "requests_in",
    "usable_blocks",
]
