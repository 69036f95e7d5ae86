"""Tiny random models in the engine and in transformers, and what transformers generates with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.model.load import load_model
from engine.model.transformer import Transformer
from engine.sampling.beam import Hypothesis
from engine.sampling.draws import uniforms
from engine.sampling.params import SamplingParams
from tests.engine.model.reference import saved

ARCHITECTURES = ("llama", "qwen2", "qwen3")
VOCAB = 128
# Wide weights: logits have a deviation of 3 and more, and the likeliest token stands well apart from the second.
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "initializer_range": 0.35,
    "bos_token_id": None,
    "eos_token_id": None,
}
LEAST_MARGIN = 2e-4  # between the two largest logits; fp32 sums in another order move them by some 1e-5

LEAST_DRAW_MARGIN = 4e-6  # the same in cumulated probability, which moves by less than 1e-6


@dataclass(frozen=True)
class Pair:
    """The same weights twice."""

    model: Transformer
    reference: Any
    known: dict[object, list[Any]] = field(default_factory=dict)  # what transformers was asked for, and said

    def greedy(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
        """What transformers generates for each prompt by itself; no two tokens are nearly as likely as each other."""
        return [self._greedy(tuple(prompt), tokens) for prompt in prompts]

    def _greedy(self, prompt: tuple[int, ...], tokens: int) -> list[int]:
        if (prompt, tokens) not in self.known:
            whole = generated(self.reference, prompt, tokens)
            best = self.logits(whole[:-1])[len(prompt) - 1 :].topk(2).values
            margin = float((best[:, 0] - best[:, 1]).min())
            assert margin > LEAST_MARGIN, f"two tokens are {margin:.1e} apart: choose other prompts for this test"
            self.known[prompt, tokens] = whole[len(prompt) :]
        return list(self.known[prompt, tokens])

    def beams(self, prompt: Sequence[int], params: SamplingParams) -> list[Hypothesis]:
        """All hypotheses that transformers' beam search finds, the best first."""
        key = tuple(prompt), params
        if key not in self.known:
            self.known[key] = self._beams(prompt, params)
        return list(self.known[key])

    def _beams(self, prompt: Sequence[int], params: SamplingParams) -> list[Hypothesis]:
        found = self.reference.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            num_beams=params.beam_width, num_return_sequences=params.beam_width, max_new_tokens=params.max_tokens,
            min_new_tokens=params.min_tokens or None, length_penalty=params.length_penalty, pad_token_id=0,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        return [
            Hypothesis(tuple(tokens[len(prompt) :]), score)
            for tokens, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True)
        ]

    def draws(self, prompt: Sequence[int], tokens: Sequence[int], stream: int) -> list[int]:
        """What the logits of transformers and the numbers of a stream give after each front of `tokens`: the inverse of the
        cumulated probabilities, in fp64. No number is so near the edge of two tokens that rounding could decide."""
        logits = self.logits([*prompt, *tokens])[len(prompt) - 1 : -1].double()
        cumulated = logits.softmax(1).cumsum(1).numpy()
        numbers = uniforms([stream] * len(tokens), [len(prompt) + place for place in range(len(tokens))])
        margin = float(np.abs(cumulated - numbers[:, None]).min())
        assert margin > LEAST_DRAW_MARGIN, f"a number is {margin:.1e} from an edge: choose another seed for this test"
        return [int(np.searchsorted(bounds, number)) for bounds, number in zip(cumulated, numbers, strict=True)]

    @torch.inference_mode()
    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        """fp32 [len(tokens), vocab], of transformers."""
        return self.reference(torch.tensor([list(tokens)])).logits[0].float()


def pair(folder: Path, architecture: str, seed: int = 0, **changes: object) -> Pair:
    reference = saved(folder, architecture, seed, **{**SHAPE, **changes})
    return Pair(load_model(folder), reference)


def generated(reference: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """Prompt and `tokens` greedy ones of transformers."""
    ids = torch.tensor([list(prompt)])
    whole = reference.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens,
        pad_token_id=0,
    )  # fmt: skip
    return whole[0].tolist()


def random_prompt(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(0, VOCAB, (length,), generator=generator).tolist()
