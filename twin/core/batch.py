"""What a step consists of: lazy decoders by number, everybody else by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from twin.core.request import Request

if TYPE_CHECKING:
    from twin.core.decoders import Decoders
    from twin.core.state import State
    from twin.policy import RequestView

NOBODY: Mapping[Request, str] = MappingProxyType({})


class Transfer(NamedTuple):
    """A block's content goes elsewhere: "out" from the device to the host, "in" back, "copy" before a write to a shared one.

    Those of a step are made in their order, before it computes. The blocks that they come from may be given out again by
    the same plan.
    """

    way: str
    source: int
    target: int


class Features(NamedTuple):
    """All that a latency model may know of a step (counts in tokens unless said otherwise).

    A part of the batch is *prefill* if fewer tokens than its prompt were computed before the step, or if it has more
    than one token; otherwise it is *decode*, one token.
    """

    sequences: int
    prefill_tokens: int
    decode_tokens: int
    context_tokens: int  # sum over all sequences of the context length after the step
    prefill_context_tokens: int = 0  # the same over the prefill parts alone
    prefill_attention: float = 0.0  # sum over the prefill parts of n * (computed before + n / 2): query-key pairs
    prefill_sequences: int = 0


class Aside(NamedTuple):
    """A member of a batch in flight that stopped being a lazy decoder, or never was one, before the batch landed."""

    request: Request
    admission: int  # its place in that batch
    yields: bool  # a token arrives for it
    stale: bool  # of a life that a preemption ended


class Batch:
    """One step: begun by the running phase, completed by the waiting phase, launched, landed."""

    __slots__ = (
        "number", "budget", "chunks", "preempted", "admitted", "rejected", "transfers", "swapped_in", "features", "regular",
        "rests", "latecomers", "entered", "asides", "by_user", "scheduled", "yielding", "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        budget: int,
        chunks: list[tuple[Request, int]],
        preempted: Mapping[Request, str] = NOBODY,
    ) -> None:
        self._state = state
        self.number = 0  # set by the launch: step of the decoders' clock; 0: nothing was scheduled
        self.budget = budget  # tokens left
        self.chunks = chunks  # those that are not lazy decoders, in running order
        self.preempted = preempted  # -> "recompute" | "swap"
        self.admitted: list[Request] = []  # from the waiting queue; those from the host are in swapped_in
        self.rejected: list[Request] = []
        self.transfers: Sequence[Transfer] = ()  # in order, before it computes
        self.swapped_in: list[Request] = []
        self.features: Features | None = None
        self.regular = 0  # lazy decoders that had a token in the step before too
        self.rests = False  # the lazy decoders have no part in it: their clock stands still
        self.latecomers: list[Request] = []  # lazy decoders whose last token is that of a step in which the others rested
        self.entered: list[Request] = []  # became lazy decoders with this step
        self.asides: list[Aside] = []
        self.by_user: dict[str | None, int] = {}  # tokens that it yields; only for policies with on_step
        self.scheduled: list[tuple[Request, int]] = []  # all by name, and of these who yields: only if asked for
        self.yielding: list[Request] = []

    @property
    def copies(self) -> list[tuple[int, int]]:
        """Copy-on-write: (from, to)."""
        return [(source, target) for way, source, target in self.transfers if way == "copy"]

    @property
    def swapped_in_blocks(self) -> int:
        return sum(transfer.way == "in" for transfer in self.transfers)

    @property
    def swapped_out_blocks(self) -> int:
        return sum(transfer.way == "out" for transfer in self.transfers)

    @property
    def empty(self) -> bool:
        return not self.number

    @property
    def computes(self) -> bool:
        """Somebody has tokens in it: by name, or as a lazy decoder."""
        return bool(self.chunks) or (self._state.decoders.count > 0 and not self.rests)

    def measure(self) -> Features:
        """The features, before the launch advances anybody."""
        decoders = self._state.decoders
        decoding = 0 if self.rests else decoders.count
        context = 0 if self.rests else decoders.context_after_step()
        prefill_tokens = prefill_context = prefill_sequences = 0
        attention = 0.0
        decode_tokens = decoding
        for request, tokens in self.chunks:
            before = request.settled_computed
            if tokens == 1 and before >= request.prompt_tokens:
                decode_tokens += 1
            else:
                prefill_sequences += 1
                prefill_tokens += tokens
                prefill_context += before + tokens
                attention += tokens * (before + tokens / 2)
            context += before + tokens
        return Features(
            decoding + len(self.chunks), prefill_tokens, decode_tokens, context, prefill_context, attention,
            prefill_sequences,
        )  # fmt: skip

    def name_all(self) -> None:
        """Fill `scheduled` and `yielding`, in running order, before the launch: for an engine, a log or a test."""
        chunks = dict(self.chunks)
        for request in self._state.running:
            tokens = chunks.get(request, 0) if request.base is None or self.rests else 1
            if tokens:
                self.scheduled.append((request, tokens))
                if tokens == request.pending:
                    self.yielding.append(request)


class Yields:
    """Who got a token in the steps just done, for `Policy.on_step`."""

    __slots__ = ("_batch", "_decoders", "by_user")

    def __init__(self, by_user: Mapping[str | None, int], decoders: Decoders, batch: Batch | None = None) -> None:
        self.by_user = by_user
        self._decoders, self._batch = decoders, batch

    @property
    def requests(self) -> list[RequestView]:
        if self._batch is not None and self._batch.rests:
            return [request.view for request in self._batch.entered if request.base is not None]
        landed = self._decoders.landed
        views = [request.view for bucket in self._decoders.ring for request in bucket if request.entered <= landed]
        if self._batch is not None:
            views += [aside.request.view for aside in self._batch.asides if aside.yields]
        return views
