"""A tiny model with a small pool, to be measured."""

import torch

from engine.attention.torch_backend import TorchAttention
from engine.kv_cache import KVCache
from engine.model.config import ModelConfig
from engine.model.load import load_model
from engine.runner import ModelRunner
from twin.core.limits import Limits

LIMITS = Limits(64, 4, num_host_blocks=16, max_num_seqs=8, max_num_batched_tokens=32, max_model_len=64)
TINY = ModelConfig(
    "tiny", "llama", layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=64, vocab=128, tied=True,
    max_position=64,
)  # fmt: skip


def tiny_runner(kv_dtype: torch.dtype = torch.float32) -> ModelRunner:
    cache = KVCache(2, LIMITS.num_blocks, LIMITS.block_size, 2, 8, kv_dtype, "cpu", LIMITS.num_host_blocks)
    return ModelRunner(load_model(TINY), cache, TorchAttention())
