"""The arrays of a step beside a naive construction, for every batch of random systems.

Beside them goes a shadow of the cache, which holds tokens instead of keys and values: what a sequence finds by its block
table at a position must be its own token of that position, whoever wrote it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.contents import TraceContents
from engine.device import device_for
from engine.executor import Executor
from engine.sampling.params import SamplingParams
from engine.step_input import NO_ROW, StepInput, StepInputs
from engine.tiny import TINY, tiny_runner
from traces.prefix import Prefix
from traces.trace import Trace
from twin.core import Limits, Rules
from twin.core.batch import Batch
from twin.core.limits import blocks_for
from twin.core.request import Request
from twin.latency.linear import LinearLatency
from twin.policy import Policy
from twin.sim import Setup, Simulation

BLOCK_SIZE = 4
NOTHING = "nothing"
Seen = dict[str, int]


def workload(seed: int, requests: int = 16) -> Trace:
    """Prompts with much in common, some in bursts; some pause, some are aborted, some want two samples."""
    draw = np.random.default_rng(seed)
    prompts = draw.integers(1, 30, requests)
    common = draw.integers(0, 3, (requests, 2))
    ids = [
        [
            *range(1000 * common[row, 0], 1000 * common[row, 0] + 10),
            *range(5000 * common[row, 1], 5000 * common[row, 1] + 25),
        ]
        for row in range(requests)
    ]
    ids = [[number if draw.random() < 0.97 else -row for number in ids[row]][:length] for row, length in enumerate(prompts)]
    pauses = ["3:2:2" if draw.random() < 0.3 else "" for _ in range(requests)]
    n = np.array([1 if pause or draw.random() < 0.6 else 2 for pause in pauses])
    return Trace(
        "random", np.sort(draw.integers(0, 12, requests)).astype(float), prompts, draw.integers(1, 16, requests),
        n=n, pauses=pauses, prefix=Prefix.of(ids, prompts, 1),
        abort_s=np.where(draw.random(requests) < 0.1, 14.5, np.nan), max_tokens=np.full(requests, 20),
    )  # fmt: skip


class Shadow:
    """Slots of the device's blocks and of the host's: each holds a list of tokens and a place in it, perhaps yet to come."""

    def __init__(self, limits: Limits) -> None:
        self.blocks: dict[int, list[Any]] = {block: [NOTHING] * BLOCK_SIZE for block in range(limits.num_blocks)}
        self.host: dict[int, list[Any]] = {}

    def move(self, batch: Batch) -> None:
        for way, source, target in batch.transfers:
            sources, targets = (self.host if way == "in" else self.blocks), (self.host if way == "out" else self.blocks)
            targets[target] = list(sources[source])

    def write(self, table: list[int], position: int, tokens: list[int]) -> None:
        self.blocks[table[position // BLOCK_SIZE]][position % BLOCK_SIZE] = tokens, position

    def read(self, table: list[int], position: int) -> Any:
        held = self.blocks[table[position // BLOCK_SIZE]][position % BLOCK_SIZE]
        return NOTHING if held is NOTHING else token(*held)


def token(tokens: list[int], position: int) -> Any:
    """The id, or for one in flight whose it is."""
    return tokens[position] if position < len(tokens) else (id(tokens), position)


class Checked(StepInputs):
    """Each step is compared; `seen` counts what has occurred."""

    def __init__(self, plain: StepInputs, limits: Limits, seen: Seen) -> None:
        super().__init__(plain.block_size, plain.sequences)
        self.shadow, self.seen, self.before = Shadow(limits), seen, []  # type: Shadow, Seen, list[Request]

    def make(self, batch: Batch, places: dict[Request, int]) -> StepInput:
        step = super().make(batch, places)
        self._check(batch, step)
        self.before = step.yielding
        return step

    def _check(self, batch: Batch, step: StepInput) -> None:
        members = [each for each in batch.scheduled if each[1] == 1] + [each for each in batch.scheduled if each[1] > 1]
        assert step.requests == [request for request, _ in members]
        assert step.num_decodes == sum(count == 1 for _, count in members)
        row, last_rows = 0, {}
        assert step.query_start[0] == 0
        for place, (request, count) in enumerate(members):
            context, table = request.computed, request.block_table
            tokens = self.sequences.of(request).tokens
            assert step.context_lens[place] == step.contexts[place] == context and step.query_lens[place] == count
            blocks = blocks_for(context, BLOCK_SIZE)
            assert step.block_tables[place, :blocks].tolist() == table[:blocks]
            for position in range(context - count, context):
                self._check_row(step, row, request, position, tokens)
                self.shadow.write(table, position, tokens)
                row += 1
            assert step.query_start[place + 1] == row
            last_rows[request] = row - 1
        assert row == len(step.token_ids) == len(step.positions) == len(step.slots) == len(step.in_flight)
        for request, _ in members:  # after all have written: what one writes another may read in the same step
            tokens = self.sequences.of(request).tokens
            for position in range(request.computed):
                assert self.shadow.read(request.block_table, position) == token(tokens, position)
        self._check_yielding(step, last_rows)
        self.seen["prefixes"] += any(self._held_twice(step))
        self.seen["swaps"] += any(way == "in" for way, _, _ in batch.transfers)
        self.seen["copies"] += bool(batch.copies)
        self.seen["in flight"] += step.any_in_flight
        self.seen["mixed"] += 0 < step.num_decodes < len(members)

    def _check_row(self, step: StepInput, row: int, request: Request, position: int, tokens: list[int]) -> None:
        block = request.block_table[position // BLOCK_SIZE]
        assert step.positions[row] == position
        assert step.slots[row] == block * BLOCK_SIZE + position % BLOCK_SIZE
        if position < len(tokens):
            assert (step.token_ids[row], step.in_flight[row]) == (tokens[position], NO_ROW)
        else:
            assert step.in_flight[row] == self.before.index(request) and position == len(tokens)

    def _check_yielding(self, step: StepInput, last_rows: dict[Request, int]) -> None:
        """Those whose last known token is computed get one more, and so do the samples that are forked from them."""
        awaited = []
        for request in last_rows:
            if request.computed >= len(self.sequences.of(request).tokens):
                awaited.append(request)
                if request.siblings[:1] == [request] and request.computed == request.prompt_tokens:
                    awaited += [sibling for sibling in request.siblings[1:] if sibling not in last_rows]
        assert {request.id for request in step.yielding} == {request.id for request in awaited}
        for request, row in zip(step.yielding, step.logit_rows.tolist(), strict=True):
            assert row == last_rows[request if request in last_rows else request.siblings[0]]

    def _held_twice(self, step: StepInput) -> Iterator[bool]:
        """Blocks that are in two tables of requests that were not forked from each other."""
        holders: dict[int, str] = {}
        for request in step.requests:
            for block in request.block_table:
                yield holders.setdefault(block, request.family) != request.family


def play(trace: Trace, rules: Rules, sampling: SamplingParams, seen: Seen, num_blocks: int) -> Any:
    """A run in which each step takes a second; every batch is checked."""
    limits = Limits(
        num_blocks, block_size=BLOCK_SIZE, num_host_blocks=20, max_num_seqs=6, max_num_batched_tokens=20, max_model_len=64,
        enable_prefix_caching=True,
    )  # fmt: skip
    executor = Executor(
        tiny_runner(limits), TraceContents(trace, BLOCK_SIZE, TINY.vocab, sampling), overlap=rules.async_scheduling
    )
    inputs = executor.inputs = Checked(executor.inputs, limits, seen)
    launch = executor.launch

    def launched(batch: Batch) -> None:
        inputs.shadow.move(batch)
        launch(batch)

    executor.launch = launched  # type: ignore[method-assign]
    setup = Setup(limits, Policy(), LinearLatency(base_s=1.0), rules)
    try:
        device = device_for(executor, None)
        return Simulation(setup, trace, True, device=device, prepare=executor.prepare).run()
    finally:
        executor.close()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("mode", "pause"), [("recompute", "recompute"), ("swap", "swap"), ("swap", "keep")])
def test_random_systems(mode: str, pause: str, asynchronous: bool) -> None:
    seen = dict.fromkeys(("prefixes", "swaps", "copies", "in flight", "mixed"), 0)
    preemptions = 0
    for seed in range(4):
        rules = Rules(mode, async_scheduling=asynchronous, pause=pause)
        outcome = play(workload(seed), rules, SamplingParams(ignore_eos=True), seen, num_blocks=22)
        assert outcome.complete and set(outcome.requests["status"]) <= {"finished", "aborted"}
        preemptions += sum(outcome.requests["preemptions"])
    assert preemptions and seen["prefixes"] and seen["mixed"] and seen["copies"]
    assert bool(seen["swaps"]) == (mode == "swap") and bool(seen["in flight"]) == asynchronous


def test_beams_read_what_their_ancestors_wrote() -> None:
    seen = dict.fromkeys(("prefixes", "swaps", "copies", "in flight", "mixed"), 0)
    for seed in range(2):
        sampling = SamplingParams(ignore_eos=True, beam_width=3, max_tokens=20)
        trace = replace(workload(seed), pauses=None, n=None)
        assert play(trace, Rules(), sampling, seen, num_blocks=40).complete
    assert seen["copies"] and seen["prefixes"]
