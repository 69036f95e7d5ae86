"""One step of a given composition, computed as the engine computes all its steps, and how long that took.

The engine's own executor gets a batch of synthetic requests: their tokens and blocks are random, their blocks lie scattered
over the pool. What a running engine has long done when a step begins is done before the clock starts: the sequences have
their tokens, and those that decode their rows in the block tables. The clock runs from there to the tokens on the host:

    start ---- prepared, transfers, forward pass, choice of tokens launched ---- tokens on the host ---- transfers over
      |-------------------------- launch_s --------------------------|                   |                     |
      |----------------------------------- duration_s -----------------------------------|                     |
      |---------------------------------------------- settled_s -----------------------------------------------|
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from engine.attention.fp8 import FP8, to_cache
from engine.choosing import Chosen
from engine.errors import StepFailure
from engine.executor import Executor
from engine.kv_cache import KVCache
from engine.kv_transfers import runs
from engine.profile.composition import Composition
from engine.runner import ModelRunner
from engine.sampling.params import SamplingParams
from twin.core.batch import Batch, Transfer
from twin.core.limits import Limits, Rules, blocks_for
from twin.core.request import Request
from twin.core.state import State
from twin.policy import Policy

BLOCKS_A_FILL = 4096  # of one layer, so that an fp8 cache needs little memory beside itself


class Timing(NamedTuple):
    """Of one step."""

    duration_s: float  # until its tokens are on the host
    device_s: float  # of these the device's: between two events on it, on a CPU the computation
    launch_s: float  # until all of it is launched; on a CPU it is computed then
    settled_s: float  # until blocks that were swapped out are on the host
    copies: int  # across the link between device and host


class RandomContents:
    """Prompts of random tokens, each a stretch of one long list."""

    def __init__(self, vocab: int, longest: int, random: np.random.Generator) -> None:
        self.tokens: list[int] = random.integers(0, vocab, longest + 4096).tolist()
        self.lengths: list[int] = []  # of the prompts of the step at hand

    def prompt(self, row: int) -> list[int]:
        start = row % 4096
        return self.tokens[start : start + self.lengths[row]]

    def answer(self, row: int, position: int, count: int) -> list[int]:
        raise AssertionError("synthetic requests never pause")

    def sampling(self, row: int) -> SamplingParams:
        return SamplingParams(ignore_eos=True)


class Stepper:
    """Measures compositions on one runner, whose cache it fills with random numbers."""

    def __init__(
        self, runner: ModelRunner, limits: Limits, seed: int = 0, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.cache, self.limits, self.clock, self.device = runner.cache, limits, clock, runner.device
        self.random = np.random.default_rng(seed)
        longest = min(limits.max_model_len, limits.num_blocks * limits.block_size)
        self.contents = RandomContents(runner.model.config.vocab, longest, self.random)
        self.executor = Executor(runner, self.contents, seed)
        self._nobody = State(limits, Policy(), Rules())  # of the batches: in it nobody runs
        fill_at_random(self.cache, seed)

    def measure(self, composition: Composition) -> Timing:
        """Raises `StepFailure` where the step cannot be computed."""
        batch, decoding = self._batch(composition)
        executor = self.executor
        for request, _ in batch.scheduled:
            executor.sequences.of(request)
        for request in decoding:
            executor.inputs.tables.row(request)
        try:
            with no_garbage_collection():
                self._idle()
                start = self.clock()
                executor.launch(batch)
                launched = self.clock()
                chosen = executor.wait(batch)
                done = self.clock()
                self._idle()
                settled = self.clock()
            _, failed = executor.settle(batch)
        finally:
            for request, _ in batch.scheduled:
                executor.end(request)
        if failed:
            raise StepFailure(next(iter(failed.values())))
        assert isinstance(chosen, Chosen)
        return Timing(done - start, chosen.device_s, launched - start, settled - start, copies(batch.transfers))

    def _idle(self) -> None:
        """Wait until the device has nothing to do, transfers included."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _batch(self, composition: Composition) -> tuple[Batch, list[Request]]:
        """The batch, and those of its requests that decode. Their integers are as after the launch."""
        transfers, free = self._blocks(composition)
        self.contents.lengths = []
        decoding = [self._request(composition.decode_context, free) for _ in range(composition.decodes)]
        prompt = composition.chunk_before + composition.chunk
        prefills = [(self._request(prompt, free), composition.chunk) for _ in range(composition.prompts)]
        batch = Batch(self._nobody, 0, list(prefills))
        batch.number, batch.features = 1, composition.features
        batch.transfers = transfers
        batch.scheduled = [*((request, 1) for request in decoding), *prefills]
        batch.yielding = [request for request, _ in batch.scheduled]
        return batch, decoding

    def _request(self, tokens: int, free: list[int]) -> Request:
        """One whose known tokens are all computed with this step."""
        index = len(self.contents.lengths)
        self.contents.lengths.append(tokens)
        request = Request(str(index), 0.0, tokens, 1, index=index)
        request.settled_computed = tokens
        request.block_table = [free.pop() for _ in range(blocks_for(tokens, self.limits.block_size))]
        return request

    def _blocks(self, composition: Composition) -> tuple[list[Transfer], list[int]]:
        """The blocks that move, and others in random order, for the tables."""
        out, moving = composition.blocks_out, composition.blocks_out + composition.blocks_in
        pool, host_pool = self.limits.num_blocks, self.limits.num_host_blocks
        draw = self._scattered if composition.scattered else self._consecutive
        blocks, hosts = draw(pool, moving), draw(host_pool, moving)
        transfers = [Transfer("out", *pair) for pair in zip(blocks[:out], hosts[:out], strict=True)]
        transfers += [Transfer("in", *pair) for pair in zip(hosts[out:], blocks[out:], strict=True)]
        taken = set(blocks)
        most = min(pool, composition.blocks(self.limits.block_size) + moving)  # so many of these may move already
        return transfers, [block for block in self._scattered(pool, most) if block not in taken]

    def _scattered(self, pool: int, count: int) -> list[int]:
        """So many different blocks of the pool, in random order."""
        drawn: list[int] = self.random.choice(pool, count, replace=False).tolist()
        return drawn

    def _consecutive(self, pool: int, count: int) -> list[int]:
        first = int(self.random.integers(0, pool - count + 1))
        return list(range(first, first + count))


def copies(transfers: Sequence[Transfer]) -> int:
    """Across the link: neighbours go together."""
    ways = {way: [(source, target) for each, source, target in transfers if each == way] for way in ("out", "in")}
    return sum(len(runs(pairs)) for pairs in ways.values())


def fill_at_random(cache: KVCache, seed: int) -> None:
    """N(0, 1) in every slot: what kernels take for zeros is not what they take for numbers, in time and in power."""
    generator = torch.Generator(cache.device).manual_seed(seed)
    ones = torch.ones(cache.data.shape[-2], device=cache.device)
    for blocks in cache.data.flatten(0, 1).flatten(0, 1).split(BLOCKS_A_FILL):
        if cache.dtype == FP8:
            drawn = torch.empty(blocks.shape, device=cache.device).normal_(generator=generator)
            blocks.copy_(to_cache(drawn, cache.dtype, ones))
        else:
            blocks.normal_(generator=generator)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """It would come at random moments, for garbage of the preparation."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
