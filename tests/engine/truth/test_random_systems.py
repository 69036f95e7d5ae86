"""Whatever the system and the policy: the tokens are those of a roomy system that serves in order of arrival."""

from __future__ import annotations

import random

import pytest

from engine.offline import Output
from engine.sampling.draws import stream
from engine.sampling.params import SamplingParams
from tests.engine.truth.models import Pair, random_prompt
from tests.engine.truth.stepped import SteppedEngine, engine
from tests.engine.truth.test_preemption import checked
from twin.core.limits import Rules
from twin.policy_assembly import assemble
from twin.predictors.oracle import Oracle
from twin.sim.scenario_file import ScenarioRequest

SEED = 3
POLICIES = (
    "fcfs", "srpt", "sjf", "mlfq", "vtc", "priority", "las", "hrrn", "lpm", "drr", "max_util", "sarathi", "prefill_first",
    "infercept", "trail", "edf",
)  # fmt: skip
STEMS = [random_prompt(length, seed=60) for length in (4, 8, 11)]
PROMPTS = [
    *(random_prompt(length, seed=61) for length in (1, 7, 12, 16)),
    *(stem + random_prompt(1 + length, seed=62) for length, stem in enumerate(STEMS)),
    *(STEMS[1] + random_prompt(5, seed=seed) for seed in (63, 64, 65)),
    STEMS[1], STEMS[1], random_prompt(9, seed=66), random_prompt(5, seed=67),
]  # fmt: skip


def sampling_of(row: int, asynchronous: bool) -> SamplingParams:
    """Greedy, drawn, several samples, beams, stop tokens: by turns. Beams need synchronous scheduling."""
    kinds = {
        2: {"temperature": 1.0, "seed": SEED},
        5: {"temperature": 1.0, "seed": SEED, "n": 3},
        8: {"beam_width": 1 if asynchronous else 3},
        9: {"temperature": 1.0, "seed": SEED, "top_p": 0.9, "top_k": 20},
        12: {"n": 2},
    }
    return SamplingParams(max_tokens=4 + row % 7, **kinds.get(row, {}))


def amended(requests: list[ScenarioRequest], pauses: bool) -> None:
    """Users, priorities, deadlines; two requests call tools."""
    for row, request in enumerate(requests):
        request.user, request.priority, request.deadline_s = f"user {row % 3}", row % 4, request.arrival_s + 10 + row
        if pauses and row in (1, 6):
            request.pauses = ((2, 3.0, 3), (3, 1.0, 0))


def random_system(draw: random.Random, pair: Pair) -> tuple[SteppedEngine, str]:
    """The largest request (three samples, or three beams) needs 15 blocks."""
    asynchronous, name = draw.random() < 0.5, draw.choice(POLICIES)
    chunked = draw.random() < 0.8
    limits = {
        "num_blocks": draw.choice([15, 16, 17, 20, 30, 60]),
        "num_host_blocks": draw.choice([0, 3, 10, 60]),
        "max_num_seqs": draw.choice([3, 4, 6, 20]),
        "max_num_batched_tokens": draw.choice([1, 3, 8, 20, 100]) if chunked else draw.choice([40, 100]),
        "long_prefill_token_threshold": draw.choice([0, 0, 2, 5]),
        "enable_chunked_prefill": chunked,
        "enable_prefix_caching": draw.random() < 0.6,
        "watermark": draw.choice([0.0, 0.0, 0.1]),
    }
    mode = draw.choice(["recompute", "swap", "auto", "keep"])
    policy = assemble(name, {}, {}, None).policy
    for_seat = policy.order is not None and draw.random() < 0.4
    rules = Rules(mode, for_seat, async_scheduling=asynchronous, pause=draw.choice(["recompute", "swap", "keep"]))
    ours = engine(pair.model, rules, policy, **limits)
    checked(ours)
    return ours, f"{name} {rules} {limits}"


def content(outputs: list[Output]) -> list[list[list[int]]]:
    return [[sample.tokens for sample in output.samples] for output in outputs]


@pytest.fixture(scope="module")
def expected(llama: Pair) -> dict[tuple[bool, bool], list[list[list[int]]]]:
    """By (asynchronous, pauses): of a roomy system; what can be is compared with transformers."""
    found = {}
    for asynchronous in (False, True):
        for pauses in (False, True):
            each = [sampling_of(row, asynchronous) for row in range(len(PROMPTS))]
            roomy = engine(llama.model)
            roomy.amend = lambda requests, pauses=pauses: amended(requests, pauses)
            outputs = roomy.generate(PROMPTS, each)
            found[asynchronous, pauses] = content(outputs)
            for row, (prompt, params, output) in enumerate(zip(PROMPTS, each, outputs, strict=True)):
                assert all(sample.status == "finished" for sample in output.samples)
                if params.beam_width > 1:
                    assert output.hypotheses[0].tokens == llama.beams(prompt, params)[0].tokens
                elif params.temperature and params.top_p == 1:
                    for number, sample in enumerate(output.samples):
                        assert sample.tokens == llama.draws(prompt, sample.tokens, stream(SEED, str(row), number))
                elif not params.temperature and not (pauses and row in (1, 6)):
                    assert content([output])[0] == llama.greedy([prompt], params.max_tokens) * params.n
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_random_system(llama: Pair, expected, seed: int) -> None:
    draw = random.Random(seed)
    ours, what = random_system(draw, llama)
    pauses = draw.random() < 0.5
    ours.amend = lambda requests: amended(requests, pauses)
    asynchronous = ours.rules.async_scheduling
    each = [sampling_of(row, asynchronous) for row in range(len(PROMPTS))]
    arrivals = sorted(round(draw.uniform(0, 25), 1) for _ in PROMPTS) if draw.random() < 0.7 else None
    outputs = ours.generate(PROMPTS, each, arrivals, predictor=Oracle())
    statuses = {sample.status for output in outputs for sample in output.samples}
    assert statuses == {"finished"}, what
    assert content(outputs) == expected[asynchronous, pauses], what
