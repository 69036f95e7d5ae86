"""A request can be given up at any moment: nothing of it is left, and nobody else's tokens change."""

from __future__ import annotations

import pytest

from engine.offline import Output
from engine.sampling.params import SamplingParams
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import BOTH, engine, greedy
from twin.core.limits import Rules
from twin.sim.scenario_file import ScenarioRequest

PROMPTS = [random_prompt(length, seed=15) for length in (9, 14, 5, 11)]
TOKENS = 8
VICTIM = 1  # row of the request that is given up
MODES = pytest.mark.parametrize("rules", BOTH, ids=["synchronous", "asynchronous"])
TIMES = [0.0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 10.5, 13.5]
# How far a pool of that kind lets the victim come by those times: in half a prompt, decoding, preempted, waiting.
SYSTEMS = {
    "roomy": {},
    "chunks of 3": {"long_prefill_token_threshold": 3},
    "one seat": {"max_num_seqs": 1},
    "a budget of 4": {"max_num_batched_tokens": 4, "enable_prefix_caching": True},
    "tight": {"num_blocks": 6, "num_host_blocks": 12, "enable_prefix_caching": True},
}


def aborted_at(time_s: float) -> list[float | None]:
    return [time_s if row == VICTIM else None for row in range(len(PROMPTS))]


def check(outputs: list[Output], expected: list[list[int]]) -> int:
    """Of the victim the front of its tokens has come; all others are whole. Returns how many of its tokens came."""
    for row, output in enumerate(outputs):
        (sample,) = output.samples
        if row == VICTIM and sample.status == "aborted":
            assert sample.reason == "abort" and sample.tokens == expected[row][: len(sample.tokens)]
        else:
            assert (sample.status, sample.tokens) == ("finished", expected[row])
    return len(outputs[VICTIM].samples[0].tokens)


@MODES
@pytest.mark.parametrize(("name", "mode"), [*((name, "recompute") for name in SYSTEMS), ("tight", "swap")])
def test_at_every_moment(llama: Pair, rules: Rules, name: str, mode: str) -> None:
    """Steps last a second and aborts fall in between (or come with the request); they take effect when a step ends."""
    expected = llama.greedy(PROMPTS, TOKENS)
    ours = engine(llama.model, Rules(mode, async_scheduling=rules.async_scheduling), **SYSTEMS[name])
    came = []
    for time_s in TIMES:
        came.append(check(ours.generate(PROMPTS, greedy(TOKENS), abort_s=aborted_at(time_s)), expected))
        assert ours.last_run.requests["generated_tokens"][VICTIM] == came[-1]
    assert came == sorted(came) and came[0] == 0 and came[-1] > 0
    if name == "roomy":  # a token a second, and the one of the step under way is dropped
        assert came == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8]


@MODES
@pytest.mark.parametrize("mode", ["recompute", "swap", "keep"])
def test_during_a_pause(llama: Pair, rules: Rules, mode: str) -> None:
    """After 3 tokens the victim waits for a tool, for 6 seconds, and goes on with 2 tokens more than it had."""

    def with_a_pause(requests: list[ScenarioRequest]) -> None:
        requests[VICTIM].pauses = ((3, 6.0, 2),)

    expected = llama.greedy(PROMPTS, TOKENS)
    ours = engine(
        llama.model, Rules(pause=mode, async_scheduling=rules.async_scheduling), num_host_blocks=12, max_model_len=40
    )  # fmt: skip
    ours.amend = with_a_pause
    (whole,) = ours.generate(PROMPTS, greedy(TOKENS))[VICTIM].samples
    expected[VICTIM] = whole.tokens
    assert whole.tokens[:3] == llama.greedy([PROMPTS[VICTIM]], 3)[0] and len(whole.tokens) == TOKENS + 2
    came = [
        check(ours.generate(PROMPTS, greedy(TOKENS), abort_s=aborted_at(time_s)), expected) for time_s in (3.5, 6.5, 10.5)
    ]
    assert came[:2] == [3, 3] and came[2] > 5


@MODES
@pytest.mark.parametrize("limits", [{}, {"num_blocks": 14, "num_host_blocks": 20, "enable_prefix_caching": True}])
def test_all_samples_of_a_request(llama: Pair, rules: Rules, limits: dict[str, int]) -> None:
    expected = llama.greedy(PROMPTS, TOKENS)
    each = [greedy(TOKENS, n=3 if row == VICTIM else 1) for row in range(len(PROMPTS))]
    ours = engine(llama.model, Rules("swap", async_scheduling=rules.async_scheduling), **limits)
    for time_s in TIMES:
        outputs = ours.generate(PROMPTS, each, abort_s=aborted_at(time_s))
        for row, output in enumerate(outputs):
            if row != VICTIM:
                assert [sample.tokens for sample in output.samples] == [expected[row]]
        for sample in outputs[VICTIM].samples:
            assert sample.tokens == expected[VICTIM][: len(sample.tokens)]
            assert (sample.status, sample.reason) in (("aborted", "abort"), ("finished", "length"))


@pytest.mark.parametrize("limits", [{}, {"num_blocks": 15, "num_host_blocks": 20, "enable_prefix_caching": True}])
def test_all_beams_of_a_search(llama: Pair, limits: dict[str, int]) -> None:
    expected = llama.greedy(PROMPTS, TOKENS)
    search = SamplingParams(max_tokens=TOKENS, beam_width=3)
    best = list(llama.beams(PROMPTS[VICTIM], search)[0].tokens)
    each = [search if row == VICTIM else greedy(TOKENS) for row in range(len(PROMPTS))]
    ours = engine(llama.model, **limits)
    statuses = set()
    for time_s in [*TIMES, 60.0]:
        outputs = ours.generate(PROMPTS, each, abort_s=aborted_at(time_s))
        assert [outputs[row].samples[0].tokens for row in (0, 2, 3)] == [expected[row] for row in (0, 2, 3)]
        statuses |= {sample.status for sample in outputs[VICTIM].samples}
        if outputs[VICTIM].samples[0].status == "finished":
            assert outputs[VICTIM].samples[0].tokens == best
    assert statuses == {"aborted", "finished"}


@MODES
def test_all_at_once_and_one_after_the_other(llama: Pair, rules: Rules) -> None:
    ours = engine(llama.model, rules, enable_prefix_caching=True)
    for times in ([2.5] * 4, [0.5, 1.5, 2.5, 3.5], [3.5, 2.5, 1.5, 0.5]):
        outputs = ours.generate(PROMPTS, greedy(TOKENS), abort_s=times)
        assert {output.samples[0].status for output in outputs} == {"aborted"}


@MODES
def test_who_is_given_up_in_the_step_of_its_stop_token_was_given_up(llama: Pair, rules: Rules) -> None:
    """The third token would end it, and the abort comes while it is computed."""
    tokens = llama.greedy(PROMPTS, TOKENS)[VICTIM]
    assert tokens[2] not in tokens[:2]
    stopping = greedy(TOKENS, stop_token_ids=(tokens[2],))
    for time_s, expected in ((2.5, ("aborted", "abort", tokens[:2])), (3.5, ("finished", "stop", tokens[:3]))):
        outputs = engine(llama.model, rules).generate(PROMPTS, stopping, abort_s=aborted_at(time_s))
        (sample,) = outputs[VICTIM].samples
        assert (sample.status, sample.reason, sample.tokens) == expected
