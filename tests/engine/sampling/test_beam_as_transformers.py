"""BeamGroup and transformers' beam search find the same hypotheses with the same scores, on tiny random Llama models."""

from itertools import takewhile

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.sampling import sampler
from engine.sampling.beam import BeamGroup, Candidate, Hypothesis
from engine.sampling.params import EarlyStopping, SamplingParams
from engine.sampling.stops import Stops

VOCAB, PROMPT = 14, [1, 5, 6, 3]


def tiny_llama(seed: int) -> LlamaForCausalLM:
    """Weights so wide that the 14 tokens are far from equally likely: beams end early, late and not at all."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.35, bos_token_id=None, eos_token_id=None,
        pad_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def theirs(model: LlamaForCausalLM, params: SamplingParams, eos_ids: list[int]) -> list[Hypothesis]:
    found = model.generate(
        torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long), do_sample=False,
        num_beams=params.beam_width, num_return_sequences=params.beam_width, length_penalty=params.length_penalty,
        early_stopping=params.early_stopping, max_new_tokens=params.max_tokens, min_new_tokens=params.min_tokens or None,
        eos_token_id=eos_ids or None, pad_token_id=0, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    return [
        Hypothesis(up_to_stop(tokens[len(PROMPT) :], eos_ids), score)
        for tokens, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True)
    ]


def up_to_stop(tokens: list[int], eos_ids: list[int]) -> tuple[int, ...]:
    """Without the filling behind the stop token."""
    before = list(takewhile(lambda token: token not in eos_ids, tokens))
    return tuple(tokens[: len(before) + 1])


@torch.inference_mode()
def ours(model: LlamaForCausalLM, params: SamplingParams, eos_ids: list[int]) -> tuple[list[Hypothesis], list[int]]:
    """The hypotheses, and how many ended in each step: a plain forward over the whole of every living beam."""
    stops = Stops.of(params, eos_ids)
    group = BeamGroup(params.beam_width, params.length_penalty, params.early_stopping, stops.token_ids, params.max_tokens)
    ended: list[int] = []
    while not group.done:
        beams = [beam.tokens for beam in group.beams]
        logits = model(torch.tensor([PROMPT + list(tokens) for tokens in beams])).logits[:, -1].float()
        none_yet = stops.suppressed(generated=len(ended))
        suppressed = ([row for row in range(len(beams)) for _ in none_yet], list(none_yet) * len(beams))
        log_probs, tokens = sampler.top_candidates(logits, group.num_candidates, suppressed)
        went_on = group.step(
            Candidate(row, token, log_prob)
            for row in range(len(beams))
            for token, log_prob in zip(tokens[row].tolist(), log_probs[row].tolist(), strict=True)
        )
        assert [beam.tokens for beam in group.beams] == [(*beams[parent], token) for parent, token in went_on.beams]
        ended.append(len(went_on.finished))
    return group.hypotheses, ended


def assert_same(model: LlamaForCausalLM, params: SamplingParams, eos_ids: list[int]) -> tuple[list[Hypothesis], list[int]]:
    expected, (found, ended) = theirs(model, params, eos_ids), ours(model, params, eos_ids)
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    scores = [hypothesis.score for hypothesis in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(scores, rel=1e-5)
    return found, ended


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.5])
def test_with_stop_tokens_in_reach(width: int, early_stopping: EarlyStopping, length_penalty: float) -> None:
    before_the_last_step = 0
    for seed in range(4):
        model = tiny_llama(seed)
        params = SamplingParams(
            beam_width=width, early_stopping=early_stopping, length_penalty=length_penalty, max_tokens=12
        )
        for eos_ids in ([2], [2, 7]):
            _, ended = assert_same(model, params, eos_ids)
            before_the_last_step += sum(ended[:-1])
    assert before_the_last_step  # the models do reach their stop tokens


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("min_tokens", [5, 12])
def test_with_stop_tokens_suppressed_at_first_or_to_the_end(width: int, min_tokens: int) -> None:
    for seed in range(3):
        params = SamplingParams(beam_width=width, min_tokens=min_tokens, max_tokens=12)
        hypotheses, _ = assert_same(tiny_llama(seed), params, [2])
        assert all(len(hypothesis.tokens) >= min_tokens for hypothesis in hypotheses)


@pytest.mark.parametrize("width", [2, 4])
def test_without_stop_tokens(width: int) -> None:
    _, ended = assert_same(tiny_llama(0), SamplingParams(beam_width=width, max_tokens=9), [])
    assert ended == [0] * 8 + [width]


def test_one_token() -> None:
    assert_same(tiny_llama(1), SamplingParams(beam_width=4, max_tokens=1), [2])
