"""A step that cannot be computed, or whose numbers are not numbers, costs its own requests and nobody else's tokens."""

from __future__ import annotations

import pytest

from engine.offline import Output
from engine.sampling.params import SamplingParams
from tests.engine.truth.faults import Faults
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import BOTH, count, engine, greedy, tokens_of
from twin.core.limits import Rules

TOKENS = 8
BAD = random_prompt(13, seed=30)
OTHERS = [random_prompt(length, seed=31) for length in (3, 9, 17, 6, 10)]
LATER = 40.0  # seconds: all who came at once are done
MODES = pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
CACHING = pytest.mark.parametrize("caching", [False, True], ids=["", "caching"])


def reasons(outputs: list[Output]) -> list[str]:
    """Of each request that was aborted; "" of one that has finished."""
    samples = [output.samples[0] for output in outputs]
    assert {sample.status for sample in samples} <= {"finished", "aborted"}
    return [sample.reason or "?" if sample.status == "aborted" else "" for sample in samples]


# --- NaN


@MODES
@CACHING
@pytest.mark.parametrize("context", [13, 14, 16, 20], ids=["prompt", "decode", "full-block", "last-token"])
def test_nan_fails_the_request_that_has_it(llama: Pair, rules: Rules, caching: bool, context: int) -> None:
    """Others never notice, though its blocks are theirs a step later. The same prompt finds nothing when it comes again."""
    ours = engine(llama.model, rules, enable_prefix_caching=caching)
    Faults(ours, nan=(5, context))
    outputs = ours.generate([*OTHERS, BAD, BAD], greedy(TOKENS), [0.0] * 6 + [LATER])
    (expected,) = llama.greedy([BAD], TOKENS)
    assert "NaN" in reasons(outputs)[5]
    assert outputs[5].samples[0].tokens == expected[: context - 13]
    assert tokens_of([*outputs[:5], outputs[6]]) == [*llama.greedy(OTHERS, TOKENS), expected]
    assert ours.last_run.requests["cached_tokens"][6] == 0


@MODES
def test_nan_in_a_prompt_fails_those_who_read_it(llama: Pair, rules: Rules) -> None:
    """A twin in the same step shares its blocks. Budget: the prompt of 13 takes two steps, and NaN comes with the second."""
    ours = engine(llama.model, rules, enable_prefix_caching=True, long_prefill_token_threshold=12)
    Faults(ours, nan=(0, 12))
    outputs = ours.generate([BAD, BAD, OTHERS[0], BAD], greedy(TOKENS), [0.0, 0.0, 0.0, LATER])
    assert ["NaN" in reason for reason in reasons(outputs)] == [True, True, False, False]
    assert tokens_of(outputs[2:]) == llama.greedy([OTHERS[0], BAD], TOKENS)


@MODES
def test_nan_behind_a_shared_prompt_is_its_own_affair(llama: Pair, rules: Rules) -> None:
    ours = engine(llama.model, rules, enable_prefix_caching=True)
    Faults(ours, nan=(0, 15))
    outputs = ours.generate([BAD, BAD, BAD], greedy(TOKENS))
    assert ["NaN" in reason for reason in reasons(outputs)] == [True, False, False]
    assert tokens_of(outputs[1:]) == llama.greedy([BAD, BAD], TOKENS)


@MODES
@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_nan_under_pressure(llama: Pair, rules: Rules, mode: str) -> None:
    """Blocks of the failed one go to others in the very next plan, and somebody is preempted all the time."""
    for context in range(13, 21):
        ours = engine(
            llama.model, Rules(mode, async_scheduling=rules.async_scheduling), num_blocks=8, num_host_blocks=20,
            enable_prefix_caching=True,
        )  # fmt: skip
        Faults(ours, nan=(1, context))
        outputs = ours.generate([OTHERS[0], BAD, *OTHERS[1:], BAD], greedy(TOKENS))
        assert ["NaN" in reason for reason in reasons(outputs)] == [False, True, False, False, False, False, False]
        assert tokens_of([outputs[0], *outputs[2:]]) == llama.greedy([OTHERS[0], *OTHERS[1:], BAD], TOKENS)
        assert count(ours.last_run, "preemptions") > 0


@MODES
def test_nan_in_one_of_four_samples(llama: Pair, rules: Rules) -> None:
    """The first that is scheduled with 15 tokens fails; its siblings share its prompt and go on."""
    ours = engine(llama.model, rules)
    Faults(ours, nan=(0, 15))
    (output,) = ours.generate([BAD], greedy(TOKENS, n=4))
    failed = [sample for sample in output.samples if sample.status == "aborted"]
    assert len(output.samples) == 4 and len(failed) == 1 and "NaN" in (failed[0].reason or "")
    assert [sample.tokens for sample in output.samples if sample not in failed] == llama.greedy([BAD], TOKENS) * 3


def test_nan_in_one_beam_fails_its_search(llama: Pair) -> None:
    ours = engine(llama.model)
    Faults(ours, nan=(0, 15))
    outputs = ours.generate([BAD, OTHERS[1]], [SamplingParams(max_tokens=TOKENS, beam_width=4), greedy(TOKENS)])
    assert {sample.status for sample in outputs[0].samples} == {"aborted"} and not outputs[0].hypotheses
    assert all("NaN" in (sample.reason or "") for sample in outputs[0].samples)
    assert tokens_of(outputs[1:]) == llama.greedy([OTHERS[1]], TOKENS)


# --- out of memory


@MODES
@CACHING
@pytest.mark.parametrize("number", [0, 1, 4, 7])
def test_a_step_without_memory_fails_those_who_are_in_it(llama: Pair, rules: Rules, caching: bool, number: int) -> None:
    """Two seats are taken after the failure by those who waited, and by one who comes later with a prompt that failed."""
    prompts = [*OTHERS, OTHERS[0], OTHERS[1]]
    ours = engine(llama.model, rules, enable_prefix_caching=caching, max_num_seqs=2)
    faults = Faults(ours, out_of_memory=[number])
    outputs = ours.generate(prompts, greedy(TOKENS), [0.0] * 5 + [LATER] * 2)
    lost = set(faults.passes[number])
    assert {row for row, reason in enumerate(reasons(outputs)) if reason} == lost
    assert all(reasons(outputs)[row].startswith("out of memory: CUDA out of memory.") for row in lost)
    survivors = [row for row in range(7) if row not in lost]
    assert tokens_of([outputs[row] for row in survivors]) == llama.greedy([prompts[row] for row in survivors], TOKENS)


@MODES
@pytest.mark.parametrize("mode", ["recompute", "swap"])
@CACHING
def test_a_step_without_memory_under_pressure(llama: Pair, rules: Rules, caching: bool, mode: str) -> None:
    """Whichever step it is, whoever was preempted, kept waiting or shared a prefix at that moment: nobody gets wrong tokens.

    Who fails was in the step, or began in the one behind it with a prefix that it should have written.
    """
    stem = OTHERS[2][:8]
    prompts = [stem + prompt for prompt in OTHERS] + [stem + OTHERS[0], BAD, stem + OTHERS[4]]
    expected = llama.greedy(prompts, TOKENS)
    overlap = rules.async_scheduling
    for number in range(0, 36, 3):
        ours = engine(
            llama.model, Rules(mode, async_scheduling=overlap), num_blocks=9, num_host_blocks=20,
            enable_prefix_caching=caching, max_num_batched_tokens=16,
        )  # fmt: skip
        faults = Faults(ours, out_of_memory=[number])
        outputs = ours.generate(prompts, greedy(TOKENS), [0.0] * 6 + [3.5, 5.5])
        wrong = {row for row, reason in enumerate(reasons(outputs)) if reason}
        lost = set(faults.passes[number])
        also = set(faults.passes[number + 1]) if overlap and caching else set()
        assert lost <= wrong <= lost | also
        right = [row for row in range(len(prompts)) if row not in wrong]
        assert tokens_of([outputs[row] for row in right]) == [expected[row] for row in right]


@CACHING
def test_an_abort_just_before_a_step_without_memory(llama: Pair, caching: bool) -> None:
    """Asynchronous: the prompt's second chunk is in flight when its request is given up, and is never written."""
    ours = engine(llama.model, BOTH[1], enable_prefix_caching=caching, max_num_batched_tokens=8)
    faults = Faults(ours, out_of_memory=[1])
    prompts = [OTHERS[2], OTHERS[2], OTHERS[0]]
    outputs = ours.generate(prompts, greedy(TOKENS), [0.0, LATER, LATER], [0.5, None, None])
    assert faults.passes[:2] == [[0], [0]] and reasons(outputs) == ["abort", "", ""]
    assert tokens_of(outputs[1:]) == llama.greedy(prompts[1:], TOKENS)


def test_a_step_without_memory_fails_whole_families(llama: Pair) -> None:
    ours = engine(llama.model)
    Faults(ours, out_of_memory=[3])
    each = [SamplingParams(max_tokens=TOKENS, beam_width=3), greedy(TOKENS, n=2), greedy(TOKENS)]
    outputs = ours.generate([BAD, OTHERS[0], OTHERS[1]], each, [0.0, 0.0, LATER])
    assert [len(output.samples) for output in outputs] == [3, 2, 1]
    assert all((sample.reason or "").startswith("out of memory") for output in outputs[:2] for sample in output.samples)
    assert tokens_of(outputs[2:]) == llama.greedy([OTHERS[1]], TOKENS)


def test_other_errors_are_not_taken_for_a_lack_of_memory(llama: Pair) -> None:
    ours = engine(llama.model)

    def broken(*_: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    ours.runner.logits = broken  # type: ignore[assignment, method-assign]
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        ours.generate([BAD], greedy(TOKENS))
