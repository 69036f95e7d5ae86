"""A tiny random model on the paged cache, in chunks and mixed batches, against the dense forward pass of whole sequences."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.checks.case import Wrong
from engine.checks.dense import dense_logits
from engine.checks.outcome import Measured
from engine.model.random_weights import RandomTensors
from engine.model.tensor_shapes import FINAL_NORM, layer_prefix
from engine.model.transformer import Transformer
from engine.model.weights import Weights
from engine.runner import ModelRunner
from engine.step_input import NO_ROW, StepInput
from twin.core.limits import blocks_for

# Largest |difference| allowed is TOLERANCE * (1 + |expected|); logits have a deviation near 1. In fp16 and bf16 all that a
# layer hands on is rounded, and roundings of two layers add up.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 0.1}
BLOCK_SIZE, NUM_BLOCKS = 16, 24
LENGTHS = (70, 33, 17)  # tokens of the sequences
STEPS = (  # (sequence, tokens) of each step, those with one token first
    ((0, 40),),
    ((0, 9), (1, 16)),
    ((0, 1), (1, 15), (2, 17)),
    ((0, 1), (1, 1)),
    ((1, 1), (0, 19)),
)
SEED = 7


def tiny_model(architecture: str) -> dict[str, Any]:
    """As the options of `model` say it. The families differ in biases and norms; of the llama the head is its own."""
    return {
        "name": f"tiny-{architecture}", "architecture": architecture, "layers": 2, "hidden": 128, "heads": 4, "kv_heads": 2,
        "head_dim": 64, "intermediate": 96, "vocab": 384, "tied": architecture != "llama", "max_position": 128,
        "dtype": "fp32", "quantization": None, "max_model_len": None,
    }  # fmt: skip


class VariedTensors:
    """The random tensors of a model, but for its norms: at 1, mistakes with them would not be seen."""

    def __init__(self, model: Transformer) -> None:
        """Sets the norms of the model too. Its other weights are `RandomTensors` of its configuration and `SEED`."""
        self.drawn = RandomTensors(model.config, SEED, model.device)
        self.norms: dict[str, Tensor] = {}
        for name, norm in norms_of(model.weights).items():
            random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            norm.copy_(torch.empty(norm.shape).uniform_(0.5, 1.5, generator=random))
            self.norms[name] = norm.double().cpu()
        self.dtype = model.dtype

    def read(self, name: str) -> Tensor | None:
        """In fp64 on the host, with the rounding of the model's dtype; None where there is no such parameter."""
        if name in self.norms:
            return self.norms[name]
        return self.drawn.read(name).to(self.dtype).double().cpu() if name in self.drawn.shapes else None


def norms_of(weights: Weights) -> dict[str, Tensor]:
    """By Hugging Face's names."""
    norms = {FINAL_NORM: weights.final_norm}
    for number, layer in enumerate(weights.layers):
        of_layer = {
            "input_layernorm": layer.input_norm, "post_attention_layernorm": layer.post_norm,
            "self_attn.q_norm": layer.q_norm, "self_attn.k_norm": layer.k_norm,
        }  # fmt: skip
        norms |= {f"{layer_prefix(number)}{name}.weight": norm for name, norm in of_layer.items() if norm is not None}
    return norms


def check_model(runner: ModelRunner) -> Measured:
    """Logits of all rows that end a chunk. Raises `Wrong`. The model has random weights, drawn with `SEED`."""
    config, dtype = runner.model.config, runner.model.dtype
    read = VariedTensors(runner.model).read
    random = torch.Generator().manual_seed(SEED)
    sequences = [torch.randint(0, config.vocab, (length,), generator=random) for length in LENGTHS]
    wanted = [dense_logits(config, read, tokens) for tokens in sequences]
    worst = 0.0
    for step, rows in paged_steps(runner, sequences):
        logits = runner.logits(step).double().cpu()
        expected = torch.stack([wanted[sequence][position] for sequence, position in rows])
        errors = (logits - expected).abs() / (1 + expected.abs())
        error = float(errors.max())
        if not error <= TOLERANCE[dtype]:  # NaN is not
            row = int(errors.nan_to_num(nan=torch.inf).amax(1).argmax())
            sequence, position = rows[row]
            raise Wrong(
                f"{config.name}: logits of sequence {sequence} at position {position} are off by {error:.3g}, "
                f"{TOLERANCE[dtype]:g} allowed"
            )
        worst = max(worst, error)
    return Measured(worst, TOLERANCE[dtype])


def paged_steps(runner: ModelRunner, sequences: list[Tensor]) -> list[tuple[StepInput, list[tuple[int, int]]]]:
    """The steps, and (sequence, position) of each row whose logits they yield. All slots are NaN before they are written."""
    runner.cache.poison()
    order = np.random.default_rng(SEED).permutation(runner.cache.num_blocks).tolist()
    tables = [[order.pop() for _ in range(blocks_for(len(tokens), BLOCK_SIZE))] for tokens in sequences]
    done = [0] * len(sequences)
    steps = []
    for parts in STEPS:
        steps.append(_step(parts, sequences, tables, done))
        for sequence, tokens in parts:
            done[sequence] += tokens
    return steps


def _step(
    parts: tuple[tuple[int, int], ...], sequences: list[Tensor], tables: list[list[int]], done: list[int]
) -> tuple[StepInput, list[tuple[int, int]]]:
    lens = [tokens for _, tokens in parts]
    contexts = [done[sequence] + tokens for sequence, tokens in parts]
    positions = np.concatenate([np.arange(end - n, end) for end, n in zip(contexts, lens, strict=True)])
    ids = np.concatenate([sequences[s][end - n : end].numpy() for (s, n), end in zip(parts, contexts, strict=True)])
    width = max(blocks_for(end, BLOCK_SIZE) for end in contexts)
    block_tables = np.full((len(parts), width), -1, np.int32)
    for row, ((sequence, _), end) in enumerate(zip(parts, contexts, strict=True)):
        used = blocks_for(end, BLOCK_SIZE)
        block_tables[row, :used] = tables[sequence][:used]
    blocks = block_tables[np.repeat(np.arange(len(parts)), lens), positions // BLOCK_SIZE].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lens)])
    step = StepInput(
        token_ids=ids,
        in_flight=np.full(len(ids), NO_ROW, np.int64),
        positions=positions,
        slots=blocks * BLOCK_SIZE + positions % BLOCK_SIZE,
        query_start=starts.astype(np.int32),
        context_lens=np.array(contexts, np.int32),
        block_tables=block_tables,
        num_decodes=lens.count(1),
        query_lens=lens,
        contexts=contexts,
        requests=[],
        logit_rows=starts[1:] - 1,
        yielding=[],
    )
    return step, [(sequence, end - 1) for (sequence, _), end in zip(parts, contexts, strict=True)]
