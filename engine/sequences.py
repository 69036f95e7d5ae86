"""The tokens of the sequences: what the scheduler only counts, the engine has to know.

A sequence's tokens stand in one list: prompt, what came out, and what tools returned, in the order of its context. The core
says how many of them there are (`prompt_tokens + generated`); a token in flight is not among them yet.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from typing import Protocol

from engine.sampling.draws import stream
from engine.sampling.params import SamplingParams
from twin.core.request import Request


class Contents(Protocol):
    """What the requests of a trace say: token ids by row of the trace."""

    def prompt(self, row: int) -> List[int]:
        """Its prompt, as many tokens as the trace says."""
        ...

    def answer(self, row: int, position: int, count: int) -> List[int]:
        """What a tool returned to it: `count` tokens from that position of its context on."""
        ...

    def sampling(self, row: int) -> SamplingParams:
        """How its tokens are chosen."""
        ...


class Sequence:
    """One sequence and its tokens; `returned` of them are what tools answered."""

    __slots__ = ("tokens", "sampling", "prompt_tokens", "returned", "stream")

    def __init__(self, tokens: list[int], sampling: SamplingParams, stream: int) -> None:
        self.tokens, self.sampling, self.stream = tokens, sampling, stream
        self.prompt_tokens, self.returned = len(tokens), 0

    @property
    def generated(self) -> list[int]:
        """What came out, and what tools returned in between."""
        return self.tokens[self.prompt_tokens :]


class Sequences:
    """All sequences that were scheduled and have not ended, by their request."""

    def __init__(self, contents: Contents, seed: int) -> None:
        self.contents, self.seed = contents, seed
        self._of: dict[Request, Sequence] = {}

    def of(self, request: Request) -> Sequence:
        """The sequence of a request that is scheduled, with all tokens that the core counts as known."""
        sequence = self._of.get(request)
        if sequence is None:
            sequence = self._of[request] = self._begin(request)
        missing = request.prompt_tokens - sequence.prompt_tokens - sequence.returned
        if missing:  # it comes back from a pause: the core counts the answer as prompt
            sequence.tokens.extend(self.contents.answer(request.index, len(sequence.tokens), missing))
            sequence.returned += missing
        return sequence

    def fork(self, request: Request, parent: Request) -> Sequence:
        """A sample that shares its prompt with `parent`, and draws tokens of its own."""
        first = self._of[parent]
        sequence = self._of[request] = Sequence(list(first.tokens), first.sampling, self._stream(request, first.sampling))
        sequence.prompt_tokens, sequence.returned = first.prompt_tokens, first.returned
        return sequence

    def append(self, request: Request, token: int) -> None:
        self._of[request].tokens.append(token)

    def end(self, request: Request) -> Sequence | None:
        """Forget it; None if it was never scheduled."""
        return self._of.pop(request, None)

    def __contains__(self, request: Request) -> bool:
        return request in self._of

    def _begin(self, request: Request) -> Sequence:
        contents = self.contents
        prompt = list(contents.prompt(request.index))
        sampling = contents.sampling(request.index)
        return Sequence(prompt, sampling, self._stream(request, sampling))

    def _stream(self, request: Request, sampling: SamplingParams) -> int:
        """The draws of a sequence are keyed by its request and number, whatever batch it is in."""
        seed = self.seed if sampling.seed is None else sampling.seed
        family, _, number = request.id.rpartition(".") if request.siblings or request.samples > 1 else (request.id, "", "0")
        return stream(seed, family, int(number))
