"""What is found in the cache is what would have been computed."""

from __future__ import annotations

import pytest
import torch

from engine.attention.base import AttentionBackend
from engine.step_input import StepInput
from tests.engine.truth.models import ARCHITECTURES, Pair, pair, random_prompt
from tests.engine.truth.stepped import BLOCK_SIZE, BOTH, count, engine, greedy, tokens_of
from twin.core.limits import Rules

LENGTHS = range(1, 4 * BLOCK_SIZE + 2)
PROMPTS = [random_prompt(length, seed=6) for length in LENGTHS]
TOKENS = 6


@pytest.fixture(scope="module", params=ARCHITECTURES)
def calm_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Logits of a deviation near 2, so that 1e-5 is ten times the rounding of fp32."""
    return pair(tmp_path_factory.mktemp(request.param), request.param, initializer_range=0.2)


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
def test_the_same_prompt_cold_and_warm(calm_pair: Pair, attention: AttentionBackend, rules: Rules) -> None:
    """pc-11: logits of the last position of the prompt, less than 1e-5 apart in fp32. A second life shares all full blocks
    but, where the prompt ends with one, the last."""
    ours = engine(calm_pair.model, rules, attention=attention, enable_prefix_caching=True)
    asked: list[tuple[StepInput, torch.Tensor]] = []
    logits = ours.runner.logits

    def watched(step: StepInput, previous: torch.Tensor | None = None) -> torch.Tensor:
        asked.append((step, logits(step, previous)))
        return asked[-1][1]

    ours.runner.logits = watched  # type: ignore[method-assign]
    expected = calm_pair.greedy(PROMPTS, TOKENS)
    for prompt, tokens in zip(PROMPTS, expected, strict=True):
        asked.clear()
        assert tokens_of(ours.generate([prompt, prompt], greedy(TOKENS), [0.0, 20.0])) == [tokens, tokens]
        cold, warm = (row for step, row in asked if step.contexts == [len(prompt)])
        assert (cold - warm).abs().max() < 1e-5
        assert (warm[0] - calm_pair.logits(prompt)[-1]).abs().max() < 1e-4
        shared = (len(prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE
        assert count(ours.last_run, "prefix_cache_hits") == shared
        assert [step.query_lens for step, _ in asked if step.contexts == [len(prompt)]][1] == [len(prompt) - shared]


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("budget", [3, 1000])
def test_found_and_new_prompts_in_one_batch(llama: Pair, rules: Rules, budget: int) -> None:
    """eng-08: all come back, those of whom everything was found included, and in the order in which they were asked."""
    fresh = [random_prompt(length, seed=7) for length in LENGTHS]
    mixed = [prompt for both in zip(PROMPTS, fresh, strict=True) for prompt in both]
    ours = engine(llama.model, rules, enable_prefix_caching=True, max_num_batched_tokens=budget)
    arrivals = [0.0] * len(PROMPTS) + [400.0] * len(mixed)
    expected = dict(zip(map(tuple, (*PROMPTS, *fresh)), llama.greedy([*PROMPTS, *fresh], TOKENS), strict=True))
    everybody = [*PROMPTS, *mixed]
    assert tokens_of(ours.generate(everybody, greedy(TOKENS), arrivals)) == [expected[tuple(each)] for each in everybody]
    found = sum((len(prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE for prompt in PROMPTS)
    assert count(ours.last_run, "prefix_cache_hits") >= found


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("budget", [2, 9, 1000])
def test_a_prefix_that_another_one_writes_in_the_same_step(any_pair: Pair, rules: Rules, budget: int) -> None:
    """Eight prompts that begin alike, at once: the later ones read what the first one is just writing."""
    stem = random_prompt(3 * BLOCK_SIZE, seed=9)
    prompts = [stem + random_prompt(1 + row, seed=9) for row in range(8)]
    ours = engine(any_pair.model, rules, enable_prefix_caching=True, max_num_batched_tokens=budget)
    assert tokens_of(ours.generate(prompts, greedy(TOKENS))) == any_pair.greedy(prompts, TOKENS)
    assert count(ours.last_run, "prefix_cache_hits") > 3 * BLOCK_SIZE


def test_a_conversation_that_goes_on_finds_its_own_answers(llama: Pair) -> None:
    """The second turn's prompt is the first one with its answer, and some more: none of it was a prompt's block before."""
    first = random_prompt(10, seed=4)
    (answer,) = llama.greedy([first], TOKENS)
    second = [*first, *answer, *random_prompt(5, seed=4)]
    ours = engine(llama.model, enable_prefix_caching=True)
    found = tokens_of(ours.generate([first, second], greedy(TOKENS), [0.0, 20.0]))
    assert found == [answer, *llama.greedy([second], TOKENS)]
