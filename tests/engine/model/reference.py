"""Models of transformers, tiny and random, saved as folders; and our logits beside theirs."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.model.transformer import Transformer
from tests.engine.model.paged import BLOCK_SIZE, PlainAttention, PlainCache, batch_of

CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
TINY: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,  # logits of a deviation near 1: differences show
}


def saved(folder: Path, architecture: str, seed: int = 0, **changes: object) -> Any:
    """A model of transformers with random weights, in evaluation mode; its folder holds the same weights."""
    configuration, model = CLASSES[architecture]
    torch.manual_seed(seed)
    reference = model(configuration(**{**TINY, **changes})).eval()
    with torch.no_grad():  # transformers starts biases at 0 and norms at 1, where mistakes would not be seen
        for name, parameter in reference.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
    reference.save_pretrained(folder)
    return reference


def tokens_of(length: int, vocab: int = TINY["vocab_size"], seed: int = 1) -> Tensor:
    return torch.randint(0, vocab, (length,), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def expected_logits(reference: Any, tokens: Tensor) -> Tensor:
    return reference(tokens[None]).logits[0].float()


def logits_of(model: Transformer, tokens: Tensor, chunks: tuple[int, ...] = ()) -> Tensor:
    """Logits of all positions, in one step or in chunks of these sizes and a rest."""
    config = model.config
    cache = PlainCache(config.layers, 2 + len(tokens) // BLOCK_SIZE, config.kv_heads, config.head_dim, model.dtype)
    attention, done, found = PlainAttention(), 0, []
    for size in (*chunks, len(tokens) - sum(chunks)):
        batch = batch_of((1, done, size))
        hidden = model.forward(tokens[done : done + size], batch, cache, attention)
        found.append(model.logits(hidden))
        done += size
    return torch.cat(found)
