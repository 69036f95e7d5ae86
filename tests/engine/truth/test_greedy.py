"""Greedy tokens are those of transformers, in whatever steps they are computed."""

from __future__ import annotations

import pytest

from engine.attention.base import AttentionBackend
from engine.offline import Engine
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import BLOCK_SIZE, BOTH, engine, greedy, tokens_of
from twin.core.limits import Limits, Rules

LENGTHS = range(1, 4 * BLOCK_SIZE + 2)
PROMPTS = [random_prompt(length, seed=5) for length in LENGTHS]
BUDGETS = (*range(1, LENGTHS[-1] + 2), 40, 1000)
TOKENS = 9  # the longest context goes beyond six blocks


@pytest.fixture(scope="module")
def expected(pairs: dict[str, Pair]) -> dict[int, list[list[int]]]:
    """By the pair's id."""
    return {id(pair): pair.greedy(PROMPTS, TOKENS) for pair in pairs.values()}


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
def test_each_length_by_itself(any_pair: Pair, expected, attention: AttentionBackend, rules: Rules) -> None:
    ours = engine(any_pair.model, rules, attention=attention)
    found = [tokens_of(ours.generate([prompt], greedy(TOKENS))) for prompt in PROMPTS]
    assert found == [[tokens] for tokens in expected[id(any_pair)]]


@pytest.mark.parametrize("budget", BUDGETS)
def test_all_lengths_together_with_every_token_budget(any_pair: Pair, expected, budget: int) -> None:
    ours = engine(any_pair.model, max_num_batched_tokens=budget)
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS))) == expected[id(any_pair)]


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_token_budget_asynchronously_and_with_shared_prefixes(llama: Pair, expected, budget: int) -> None:
    ours = engine(llama.model, BOTH[1], max_num_batched_tokens=budget, enable_prefix_caching=True)
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS))) == expected[id(llama)]


@pytest.mark.parametrize("threshold", range(1, LENGTHS[-1] + 1))
def test_all_lengths_together_in_every_size_of_chunks(
    llama: Pair, expected, attention: AttentionBackend, threshold: int
) -> None:
    """With 50 tokens a step, decodes and chunks of several prompts stand side by side."""
    ours = engine(llama.model, attention=attention, long_prefill_token_threshold=threshold, max_num_batched_tokens=50)
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS))) == expected[id(llama)]


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("seats", [1, 3, 8])
def test_few_seats_and_late_arrivals(any_pair: Pair, expected, rules: Rules, seats: int) -> None:
    ours = engine(any_pair.model, rules, max_num_seqs=seats, max_num_batched_tokens=13)
    arrivals = [1.5 * row for row in range(len(PROMPTS))]
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS), arrivals)) == expected[id(any_pair)]


def test_outputs_of_different_lengths(llama: Pair, expected) -> None:
    """Some leave while others begin: rows of block tables change hands."""
    ours = engine(llama.model, max_num_seqs=5)
    wanted = [1 + row % TOKENS for row in range(len(PROMPTS))]
    found = tokens_of(ours.generate(PROMPTS, [greedy(tokens) for tokens in wanted]))
    assert found == [tokens[:count] for tokens, count in zip(expected[id(llama)], wanted, strict=True)]


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
def test_in_measured_time(any_pair: Pair, expected, rules: Rules) -> None:
    """The engine as it is used, with the clock and the attention that it chooses."""
    ours = Engine(any_pair.model, Limits(600, BLOCK_SIZE, max_model_len=64), rules=rules)
    ours.runner.cache.poison()
    arrivals = [0.01 * row for row in range(len(PROMPTS))]
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS), arrivals)) == expected[id(any_pair)]
    assert ours.last_run.end_s > 0.16
