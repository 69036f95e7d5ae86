"""From the logits of a step to its tokens: drawn on the device, for beams the best candidates; then brought to the host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.sampling.draws import uniforms
from engine.sampling.sampler import sample, suppress, top_candidates
from engine.sampling.stops import Stops
from engine.sequences import Sequences
from twin.core.request import Request

Pairs = list[tuple[int, float]]  # (token, log-probability)


@dataclass(frozen=True, slots=True)
class Choice:
    """How the tokens of a step are chosen: on the host, an entry a row of logits. Beams are the last `beams` rows."""

    temperatures: list[float]
    top_ps: list[float]
    top_ks: list[int]
    uniforms: NDArray[np.float64]
    suppressed: tuple[list[int], list[int]]  # (rows, tokens) that may not come yet
    beams: int
    candidates: int  # wanted of each beam

    def choose(self, logits: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """(tokens int64 [rows without beams], the beams' (log-probabilities, tokens)); -1 where logits are not finite."""
        drawn = len(self.temperatures)
        beams = None
        if self.beams:
            beams = top_candidates(logits[drawn:], self.candidates, self._suppressed(drawn, len(logits)))
            logits = logits[:drawn]
        suppress(logits, *self._suppressed(0, drawn))
        if not drawn:
            return torch.empty(0, dtype=torch.int64, device=logits.device), beams
        return sample(logits, self.temperatures, self.top_ps, self.top_ks, self.uniforms), beams

    def _suppressed(self, start: int, end: int) -> tuple[list[int], list[int]]:
        """Of the rows from start up to end, counted from start."""
        pairs = [(row - start, token) for row, token in zip(*self.suppressed, strict=True) if start <= row < end]
        return [row for row, _ in pairs], [token for _, token in pairs]


def choice_for(yielding: list[Request], sequences: Sequences, stops: dict[Request, Stops], candidates: int) -> Choice:
    """For the rows of these requests, beams last, before their tokens come. `stops` of those that have a least length."""
    parameters, streams, positions = [], [], []
    rows: list[int] = []
    tokens: list[int] = []
    beams = sum(request.beams is not None for request in yielding)
    for row, request in enumerate(yielding):
        sequence = sequences.of(request)
        if request.beams is None:
            parameters.append(sequence.sampling)
            streams.append(sequence.stream)
            positions.append(request.computed)
        if request in stops:
            forbidden = stops[request].suppressed(request.computed - sequence.prompt_tokens)
            rows += [row] * len(forbidden)
            tokens += forbidden
    greedy = all(each.temperature == 0 for each in parameters)
    return Choice(
        [each.temperature for each in parameters], [each.top_p for each in parameters], [each.top_k for each in parameters],
        np.zeros(len(streams)) if greedy else uniforms(streams, positions), (rows, tokens), beams, candidates,
    )  # fmt: skip


class Chosen(NamedTuple):
    """The tokens of a step, on the host."""

    tokens: list[int]  # of those without beams
    candidates: list[Pairs]  # of each beam
    device_s: float  # seconds for which the device was busy with the step
    done_s: float  # when it was done, on the clock of time.perf_counter


class Pending:
    """A step on its way: `tokens` are on the device, `fetch` waits until they are on the host."""

    def __init__(self, device: torch.device) -> None:
        """The step begins."""
        self.cuda = device.type == "cuda"
        self.tokens = torch.empty(0, dtype=torch.int64, device=device)
        self.beams: tuple[Tensor, Tensor] | None = None
        self.began_s = time.perf_counter()
        if self.cuda:
            self.began, self.computed = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.began.record()

    def end(self, tokens: Tensor, beams: tuple[Tensor, Tensor] | None) -> None:
        """All of it is launched; on a CPU it is done."""
        self.tokens = tokens
        if self.cuda:
            self.computed.record()
            self.host_tokens = _to_pinned(tokens)
            self.beams = None if beams is None else (_to_pinned(beams[0]), _to_pinned(beams[1]))
            self.copied = torch.cuda.Event()
            self.copied.record()
        else:
            self.host_tokens, self.beams = tokens, beams
        self.done_s = time.perf_counter()

    def fetch(self) -> Chosen:
        done_s, device_s = self.done_s, self.done_s - self.began_s
        if self.cuda:
            self.copied.synchronize()
            done_s, device_s = time.perf_counter(), self.began.elapsed_time(self.computed) / 1e3
        candidates: list[Pairs] = []
        if self.beams is not None:
            best, tokens = (part.tolist() for part in self.beams)
            candidates = [list(zip(row, scores, strict=True)) for row, scores in zip(tokens, best, strict=True)]
        return Chosen(self.host_tokens.tolist(), candidates, device_s, done_s)


def _to_pinned(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor, non_blocking=True)
