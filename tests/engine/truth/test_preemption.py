"""Tokens are the same whether anybody is preempted or not, by whatever mode, greedy or drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.attention.base import AttentionBackend
from engine.sampling.draws import stream
from engine.sampling.params import SamplingParams
from tests.engine.truth.checked import CheckedRunner
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import BLOCK_SIZE, SteppedEngine, count, engine, greedy, tokens_of
from twin.core.limits import Rules, blocks_for
from twin.policy_assembly import assemble
from twin.predictors.oracle import Oracle

PROMPTS = [random_prompt(length, seed=12) for length in (9, 3, 17, 12, 1, 8, 14, 5, 16, 11)]
TOKENS = 16
LARGEST = 17 + TOKENS - 1  # tokens of the largest request: the KV of the last one is never written
SEED = 3
DRAWN = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=SEED)
MODES = ("recompute", "swap", "auto")


def three_percent_over(tokens: int) -> int:
    """Blocks: at least one more than the largest request needs, or it would be alone."""
    needed = blocks_for(tokens, BLOCK_SIZE)
    return max(needed + 1, round(1.03 * needed))


TIGHT = {"num_blocks": three_percent_over(LARGEST), "num_host_blocks": 40}


def checked(ours: SteppedEngine) -> CheckedRunner:
    """The same engine, which looks at every slot that it reads."""
    ours.runner = runner = CheckedRunner(ours.runner)
    ours.prepare = runner.attach
    return runner


@pytest.mark.parametrize(("caching", "asynchronous"), [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize("mode", MODES)
def test_greedy_tokens_are_those_of_transformers(any_pair: Pair, mode: str, caching: bool, asynchronous: bool) -> None:
    """eng-06, and asynchronous eng-07: as many tokens as asked for, and the same ones."""
    rules = Rules(mode, async_scheduling=asynchronous)
    ours = engine(any_pair.model, rules, enable_prefix_caching=caching, max_num_batched_tokens=30, **TIGHT)
    assert tokens_of(ours.generate(PROMPTS, greedy(TOKENS))) == any_pair.greedy(PROMPTS, TOKENS)
    assert count(ours.last_run, "preemptions") >= 3
    assert (count(ours.last_run, "swapped_blocks") > 0) == (mode != "recompute")


@pytest.fixture(scope="module")
def drawn(llama: Pair) -> list[list[int]]:
    found = tokens_of(engine(llama.model).generate(PROMPTS, DRAWN))
    for row, (prompt, tokens) in enumerate(zip(PROMPTS, found, strict=True)):
        assert tokens == llama.draws(prompt, tokens, stream(SEED, str(row)))
    return found


@pytest.mark.parametrize("rules", [Rules(mode, async_scheduling=a) for mode in MODES for a in (False, True)])
@pytest.mark.parametrize("budget", [5, 100])
def test_draws_come_again(llama: Pair, drawn, attention: AttentionBackend, rules: Rules, budget: int) -> None:
    """Each is keyed by its request and position, whatever batch it is in and in whichever life of the request."""
    ours = engine(llama.model, rules, attention=attention, max_num_batched_tokens=budget, **TIGHT)
    assert tokens_of(ours.generate(PROMPTS, DRAWN)) == drawn
    assert count(ours.last_run, "preemptions") >= 3


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("caching", [False, True], ids=["", "caching"])
def test_a_victim_that_keeps_its_blocks_may_lose_them_to_others(llama: Pair, caching: bool, asynchronous: bool) -> None:
    """Two seats, shortest remaining first: who loses its seat keeps its blocks, until somebody needs them."""
    policy = assemble("srpt", {}, {}, None).policy
    rules = Rules("keep", preempt_for_seat=True, async_scheduling=asynchronous)
    ours = engine(llama.model, rules, policy, max_num_seqs=2, enable_prefix_caching=caching, **TIGHT)
    wanted = [max(2, TOKENS - 2 * row) for row in range(len(PROMPTS))]
    arrivals = [1.0 * row for row in range(len(PROMPTS))]
    found = tokens_of(ours.generate(PROMPTS, each_greedy(wanted), arrivals, predictor=Oracle()))
    expected = llama.greedy(PROMPTS, TOKENS)
    assert found == [tokens[:count] for tokens, count in zip(expected, wanted, strict=True)]
    assert count(ours.last_run, "keep_preemptions") >= 3 and count(ours.last_run, "swapped_blocks") > 0


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_one_victim_is_enough_for_one_block(llama: Pair, mode: str, asynchronous: bool) -> None:
    """live-09: four requests of 4 + 4 tokens need two blocks each, of seven: one is preempted, once, never all of them."""
    prompts = [random_prompt(BLOCK_SIZE, seed=seed) for seed in (31, 32, 33, 34)]
    ours = engine(llama.model, Rules(mode, async_scheduling=asynchronous), num_blocks=7, num_host_blocks=8)
    assert tokens_of(ours.generate(prompts, greedy(4))) == llama.greedy(prompts, 4)
    assert count(ours.last_run, "preemptions") == 1


def short_requests(number: int) -> tuple[list[list[int]], list[int]]:
    """Prompts, some of which begin alike or are the same, and how many tokens each wants."""
    draw = random.Random(4)
    stems = [random_prompt(2 * BLOCK_SIZE, seed=40 + stem) for stem in range(5)]
    prompts: list[list[int]] = []
    for row in range(number):
        prompt = random_prompt(draw.randint(1, 3 * BLOCK_SIZE), seed=100 + row)
        kind = draw.random()
        if kind < 0.4:
            prompt = draw.choice(stems) + prompt[: BLOCK_SIZE + 1]
        elif kind < 0.5 and prompts:
            prompt = list(draw.choice(prompts))
        prompts.append(prompt)
    return prompts, [draw.randint(1, 8) for _ in range(number)]


@pytest.mark.parametrize(("caching", "mode"), [(False, "swap"), (True, "recompute")])
def test_five_hundred_short_requests_in_a_pool_three_percent_over_the_largest(
    llama: Pair, short_reference: list[list[int]], caching: bool, mode: str
) -> None:
    """blk-04: every slot that is read holds the reader's own text, and outputs are those of ten times the room."""
    prompts, wanted = short_requests(500)
    blocks = three_percent_over(max(len(prompt) + tokens - 1 for prompt, tokens in zip(prompts, wanted, strict=True)))
    rules = Rules(mode, async_scheduling=caching)
    ours = engine(llama.model, rules, enable_prefix_caching=caching, num_blocks=blocks, num_host_blocks=2 * blocks)
    runner = checked(ours)
    assert tokens_of(ours.generate(prompts, each_greedy(wanted))) == short_reference
    assert count(ours.last_run, "preemptions") > 30 and runner.reads > 20_000


@pytest.fixture(scope="module")
def short_reference(llama: Pair) -> list[list[int]]:
    """Of a pool with ten times the room, where nobody is preempted; the first of them by transformers too."""
    prompts, wanted = short_requests(500)
    ours = engine(llama.model, num_blocks=600, max_num_seqs=32)
    found = tokens_of(ours.generate(prompts, each_greedy(wanted)))
    assert count(ours.last_run, "preemptions") == 0
    by_transformers = llama.greedy(prompts[:25], 8)
    assert found[:25] == [tokens[:count] for tokens, count in zip(by_transformers, wanted, strict=False)]
    return found


def each_greedy(wanted: Sequence[int]) -> list[SamplingParams]:
    return [greedy(tokens) for tokens in wanted]


def test_who_reads_a_block_of_somebody_else_is_seen(llama: Pair) -> None:
    """The check can fail: a table whose first two blocks are another one's."""
    ours = engine(llama.model)
    checked(ours)
    attach = ours.prepare

    def with_a_wrong_table(executor) -> None:
        attach(executor)
        make = executor.inputs.make

        def wrong(batch, places):
            step = make(batch, places)
            if len(step.block_tables) > 1:
                step.block_tables[1, :1] = step.block_tables[0, :1]
            return step

        executor.inputs.make = wrong

    ours.prepare = with_a_wrong_table
    with pytest.raises(AssertionError, match="somebody else's text"):
        ours.generate(PROMPTS[2:4], greedy(3))
