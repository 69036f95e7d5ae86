"""Several sequences of one prompt: samples that draw for themselves, and beams as transformers finds them."""

from __future__ import annotations

import pytest

from engine.attention.base import AttentionBackend
from engine.offline import Output
from engine.sampling.draws import stream
from engine.sampling.params import SamplingParams
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import BLOCK_SIZE, BOTH, count, engine, greedy, tokens_of
from twin.core.limits import Rules

PROMPTS = [random_prompt(length, seed=8) for length in (1, 4, 6, 13, 17)]
SEED = 3
SAMPLED = SamplingParams(max_tokens=10, temperature=1.0, n=4, seed=SEED)
TIGHT = {"num_blocks": 28, "num_host_blocks": 60}  # four samples of 17 + 10 tokens need 4 + 4 * 3 blocks


def samples(outputs: list[Output]) -> list[list[list[int]]]:
    assert all(sample.status == "finished" for output in outputs for sample in output.samples)
    return [[sample.tokens for sample in output.samples] for output in outputs]


# --- samples


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("budget", [3, 1000])
def test_greedy_samples_are_all_the_same(llama: Pair, attention: AttentionBackend, rules: Rules, budget: int) -> None:
    """A budget of 3 tokens: siblings of a family decode in different steps."""
    ours = engine(llama.model, rules, attention=attention, max_num_batched_tokens=budget, enable_prefix_caching=True)
    found = samples(ours.generate(PROMPTS, greedy(10, n=4)))
    assert found == [[tokens] * 4 for tokens in llama.greedy(PROMPTS, 10)]


def test_drawn_samples_differ_and_come_again(llama: Pair) -> None:
    first, again = (samples(engine(llama.model).generate(PROMPTS, SAMPLED)) for _ in range(2))
    assert first == again
    assert all(len({tuple(tokens) for tokens in family}) == 4 for family in first)
    others = SamplingParams(max_tokens=10, temperature=1.0, n=4)
    by_run = [samples(engine(llama.model, seed=seed).generate(PROMPTS, others)) for seed in (SEED, 77)]
    assert by_run[0] == first and by_run[1] != first


@pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
def test_each_token_is_the_one_that_the_logits_of_transformers_and_its_number_give(llama: Pair, rules: Rules) -> None:
    outputs = engine(llama.model, rules).generate(PROMPTS, SAMPLED)
    for row, (prompt, family) in enumerate(zip(PROMPTS, samples(outputs), strict=True)):
        for number, tokens in enumerate(family):
            assert tokens == llama.draws(prompt, tokens, stream(SEED, str(row), number))


@pytest.mark.parametrize("rules", [*BOTH, Rules("swap"), Rules("swap", async_scheduling=True)])
@pytest.mark.parametrize("caching", [False, True])
def test_samples_under_pressure(llama: Pair, rules: Rules, caching: bool) -> None:
    roomy = samples(engine(llama.model).generate(PROMPTS, SAMPLED))
    ours = engine(llama.model, rules, enable_prefix_caching=caching, **TIGHT)
    assert samples(ours.generate(PROMPTS, SAMPLED)) == roomy
    assert count(ours.last_run, "preemptions") > 2


def test_more_than_ten_samples_come_in_the_order_of_their_numbers(llama: Pair) -> None:
    twelve = SamplingParams(max_tokens=6, temperature=1.0, n=12, seed=SEED)
    (family,) = samples(engine(llama.model).generate(PROMPTS[:1], twelve))
    (four,) = samples(
        engine(llama.model).generate(PROMPTS[:1], SamplingParams(max_tokens=6, temperature=1.0, n=4, seed=SEED))
    )
    assert len(family) == 12 and family[:4] == four


@pytest.mark.parametrize(("n", "blocks", "copies"), [(2, 3, 1), (4, 5, 3)])
def test_samples_share_their_prompt_and_copy_its_last_block(llama: Pair, n: int, blocks: int, copies: int) -> None:
    """6 tokens in blocks of 4, and two new ones each: the first decode writes behind token 6 (Kwon et al., figure 8)."""
    ours, copied = engine(llama.model, num_blocks=blocks), []
    apply = ours.runner.cache.apply

    def watched(transfers):
        copied.extend(transfer for transfer in transfers if transfer[0] == "copy")
        apply(transfers)

    ours.runner.cache.apply = watched  # type: ignore[method-assign]
    found = samples(ours.generate([PROMPTS[2]], greedy(2, n=n)))
    assert found == [llama.greedy([PROMPTS[2]], 2) * n]
    assert len(copied) == copies and int(ours.last_run.peak_blocks.max()) == blocks


# --- beams

BEAMS = SamplingParams(max_tokens=10, beam_width=4)


def assert_as_transformers(pair: Pair, prompts: list[list[int]], params: SamplingParams, outputs: list[Output]) -> None:
    for prompt, output in zip(prompts, outputs, strict=True):
        expected = pair.beams(prompt, params)
        assert [hypothesis.tokens for hypothesis in output.hypotheses] == [each.tokens for each in expected]
        scores = [each.score for each in expected]
        assert [hypothesis.score for hypothesis in output.hypotheses] == pytest.approx(scores, rel=1e-5, abs=1e-5)
        assert output.samples[0].tokens == list(expected[0].tokens)


@pytest.mark.parametrize(("budget", "caching"), [(3, True), (7, False), (1000, True)])
def test_beams_are_those_of_transformers(any_pair: Pair, attention: AttentionBackend, budget: int, caching: bool) -> None:
    ours = engine(any_pair.model, attention=attention, max_num_batched_tokens=budget, enable_prefix_caching=caching)
    assert_as_transformers(any_pair, PROMPTS, BEAMS, ours.generate(PROMPTS, BEAMS))


@pytest.mark.parametrize("params", [BEAMS, SamplingParams(max_tokens=14, beam_width=3, length_penalty=0.3)])
@pytest.mark.parametrize("caching", [False, True])
def test_beams_that_are_preempted_begin_again(llama: Pair, params: SamplingParams, caching: bool) -> None:
    ours = engine(llama.model, enable_prefix_caching=caching, **TIGHT)
    assert_as_transformers(llama, PROMPTS, params, ours.generate(PROMPTS, params))
    assert count(ours.last_run, "preemptions") >= 2


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_beams_samples_and_single_ones_together(llama: Pair, mode: str) -> None:
    """One pool, one batch; nobody changes what another one finds."""
    each = [BEAMS, greedy(10), SAMPLED, BEAMS, greedy(10)]
    roomy, tight = (
        engine(llama.model, Rules(mode), **limits).generate(PROMPTS, each) for limits in ({}, TIGHT | {"num_blocks": 24})
    )
    assert_as_transformers(llama, [PROMPTS[0], PROMPTS[3]], BEAMS, [tight[0], tight[3]])
    assert samples(tight) == samples(roomy)
    assert tokens_of([tight[1], tight[4]]) == llama.greedy([PROMPTS[1], PROMPTS[4]], 10)


def test_the_number_of_hypotheses_is_that_asked_for(llama: Pair) -> None:
    (output,) = engine(llama.model).generate([PROMPTS[2]], SamplingParams(max_tokens=5, beam_width=4, n=2))
    assert [sample.tokens for sample in output.samples] == [list(each.tokens) for each in output.hypotheses[:2]]


def test_a_block_size_is_no_condition(llama: Pair) -> None:
    for block_size in (1, 3, 16):
        ours = engine(llama.model, block_size=block_size)
        assert_as_transformers(llama, PROMPTS, BEAMS, ours.generate(PROMPTS, BEAMS))
        assert tokens_of(ours.generate(PROMPTS, greedy(10))) == llama.greedy(PROMPTS, 10)
    assert BLOCK_SIZE not in (1, 3, 16)
