"""Where a sequence ends: stop tokens, the model's own end, the least and the most number of tokens."""

from __future__ import annotations

import pytest
import torch

from engine.sampling.params import SamplingParams
from tests.engine.truth.models import Pair, pair, random_prompt
from tests.engine.truth.stepped import BOTH, engine, greedy, tokens_of
from twin.core.limits import Rules

PROMPTS = [random_prompt(length, seed=14) for length in (2, 7, 9, 12)]
TOKENS = 12
MODES = pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])


def up_to(tokens: list[int], stop: int, least: int = 0) -> list[int]:
    """As far as the first stop token that comes after the first `least` tokens, with it."""
    end = next((place for place in range(least, len(tokens)) if tokens[place] == stop), len(tokens) - 1)
    return tokens[: end + 1]


@pytest.fixture(scope="module")
def free(llama: Pair) -> list[list[int]]:
    """What comes when nothing stops it."""
    return llama.greedy(PROMPTS, TOKENS)


@MODES
@pytest.mark.parametrize("budget", [4, 1000])
def test_a_stop_token_ends_its_request_and_is_its_last_token(llama: Pair, free, rules: Rules, budget: int) -> None:
    """Each stops at another place, one of them not at all; those who go on are not disturbed."""
    stops = [free[0][0], free[1][3], free[2][7], 127]
    assert 127 not in free[3]
    each = [greedy(TOKENS, stop_token_ids=(stop,)) for stop in stops]
    ours = engine(llama.model, rules, max_num_batched_tokens=budget, enable_prefix_caching=True)
    outputs = ours.generate(PROMPTS, each)
    assert tokens_of(outputs) == [up_to(tokens, stop) for tokens, stop in zip(free, stops, strict=True)]
    assert [output.samples[0].reason for output in outputs] == ["stop", "stop", "stop", "length"]
    assert ours.last_run.requests["generated_tokens"].tolist() == [len(tokens) for tokens in tokens_of(outputs)]


@MODES
def test_a_stop_token_as_the_last_that_is_allowed(llama: Pair, free, rules: Rules) -> None:
    """Both at once: it stopped."""
    (output,) = engine(llama.model, rules).generate(PROMPTS[:1], greedy(4, stop_token_ids=(free[0][3],)))
    assert free[0][3] not in free[0][:3]
    assert (output.samples[0].tokens, output.samples[0].reason) == (free[0][:4], "stop")


@MODES
def test_the_length_is_limited_by_the_model_too(llama: Pair, free, rules: Rules) -> None:
    ours = engine(llama.model, rules, max_model_len=15)
    outputs = ours.generate(PROMPTS, greedy(TOKENS))
    expected = [tokens[: 15 - len(prompt)] for prompt, tokens in zip(PROMPTS, free, strict=True)]
    assert [output.samples[0].tokens for output in outputs] == expected
    assert {output.samples[0].reason for output in outputs} == {"length"}


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory, free) -> Pair:
    """The same weights, with an end-of-sequence token that comes early and one that comes late."""
    ends = [free[1][2], free[2][8]]
    return pair(tmp_path_factory.mktemp("ending"), "llama", eos_token_id=ends)


@MODES
def test_the_end_of_sequence_tokens_of_the_model(ending: Pair, free, rules: Rules) -> None:
    early, late = ending.model.config.eos_token_ids
    expected = [min(up_to(tokens, early), up_to(tokens, late), key=len) for tokens in free]
    found = engine(ending.model, rules).generate(PROMPTS, greedy(TOKENS))
    assert tokens_of(found) == expected and len({len(tokens) for tokens in expected}) > 2
    for output in found:
        assert output.samples[0].reason == ("stop" if output.samples[0].tokens[-1] in (early, late) else "length")
    ignored = engine(ending.model, rules).generate(PROMPTS, greedy(TOKENS, ignore_eos=True))
    assert tokens_of(ignored) == free and {output.samples[0].reason for output in ignored} == {"length"}
    own = engine(ending.model, rules).generate(PROMPTS, greedy(TOKENS, ignore_eos=True, stop_token_ids=(free[3][5],)))
    assert tokens_of(own) == [up_to(tokens, free[3][5]) for tokens in free]


@MODES
@pytest.mark.parametrize("least", [1, 3, 6, TOKENS])
def test_no_stop_token_comes_too_early(ending: Pair, rules: Rules, least: int) -> None:
    """transformers suppresses the end of sequence likewise."""
    outputs = engine(ending.model, rules).generate(PROMPTS, greedy(TOKENS, min_tokens=least))
    for prompt, tokens in zip(PROMPTS, tokens_of(outputs), strict=True):
        ids = torch.tensor([prompt])
        expected = ending.reference.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS, min_new_tokens=least,
            pad_token_id=0,
        )  # fmt: skip
        assert tokens == expected[0, len(prompt) :].tolist() and len(tokens) >= least


@MODES
def test_samples_stop_each_for_itself(llama: Pair, rules: Rules) -> None:
    sampling = SamplingParams(max_tokens=TOKENS, temperature=1.0, n=4)
    (unstopped,) = engine(llama.model, rules).generate(PROMPTS[:1], sampling)
    stop = unstopped.samples[2].tokens[4]
    stopping = SamplingParams(max_tokens=TOKENS, temperature=1.0, n=4, stop_token_ids=(stop,))
    (output,) = engine(llama.model, rules).generate(PROMPTS[:1], stopping)
    assert [sample.tokens for sample in output.samples] == [up_to(sample.tokens, stop) for sample in unstopped.samples]
    assert [sample.reason for sample in output.samples] == [
        "stop" if sample.tokens[-1] == stop else "length" for sample in output.samples
    ]
    assert {sample.reason for sample in output.samples} == {"stop", "length"}


@pytest.mark.parametrize("least", [0, 5])
def test_beams_that_end_early(ending: Pair, least: int) -> None:
    """Hypotheses of different lengths, as transformers has them."""
    params = SamplingParams(max_tokens=TOKENS, beam_width=3, n=3, min_tokens=least)
    ends = ending.model.config.eos_token_ids
    outputs = engine(ending.model, num_blocks=24).generate(PROMPTS, params)
    lengths = set()
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        expected = ending.beams(prompt, params)
        found = [list(each.tokens) for each in output.hypotheses]
        assert found == [up_to_end(list(each.tokens), ends) for each in expected]
        assert [each.score for each in output.hypotheses] == pytest.approx([each.score for each in expected], rel=1e-5)
        for sample, tokens in zip(output.samples, found, strict=True):
            assert (sample.tokens, sample.reason) == (tokens, "stop" if tokens[-1] in ends else "length")
        lengths |= {len(tokens) for tokens in found}
    assert len(lengths) > 1


def up_to_end(tokens: list[int], ends: tuple[int, ...]) -> list[int]:
    """Without what fills the row behind the end."""
    return next((tokens[: place + 1] for place, token in enumerate(tokens) if token in ends), tokens)


@MODES
def test_stops_after_a_preemption(llama: Pair, free, rules: Rules) -> None:
    """A sequence that stops in its second life stops where it would have in the first."""
    for mode in ("recompute", "swap"):
        stops = [next(token for token in reversed(tokens[:10]) if token not in tokens[:3]) for tokens in free]
        ours = engine(llama.model, Rules(mode, async_scheduling=rules.async_scheduling), num_blocks=8, num_host_blocks=20)
        outputs = ours.generate(PROMPTS, [greedy(TOKENS, stop_token_ids=(stop,), min_tokens=3) for stop in stops])
        suppressed = [up_to(tokens, stop, least=3) for tokens, stop in zip(free, stops, strict=True)]
        assert tokens_of(outputs) == suppressed and {output.samples[0].reason for output in outputs} == {"stop"}
        assert ours.last_run.counters["preemptions"] > 0
