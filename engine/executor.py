"""Carries out what the scheduler decides: launches batches on the model, and brings their tokens back.

    launch(batch)   it has just been planned: transfers, forward pass and choice of tokens begin
    wait(batch)     its tokens are on the host; how long that took
    settle(batch)   it is about to land: tokens join their sequences; who has stopped, who has failed
    end(request)    the request has ended

With `overlap` (asynchronous scheduling) a step computes while the next one is planned: on CUDA because its kernels are only
launched, on a CPU in a thread. Steps are computed one after the other in either case, and a token in flight is an input of
the next step before the host has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from engine.beam_searches import BeamSearch
from engine.choosing import Choice, Chosen, Pending, choice_for
from engine.errors import StepFailure
from engine.runner import ModelRunner
from engine.sampling.sampler import FAILED
from engine.sampling.stops import Stops
from engine.sequences import Contents, Sequence, Sequences
from engine.step_input import StepInput, StepInputs
from twin.core.batch import Batch
from twin.core.errors import DeviceError
from twin.core.request import ENDED, Request

NOT_FINITE = "its logits are not finite numbers (NaN or infinity)"
NEVER_WRITTEN = "what it found in the cache was never written, for that step failed"
# What torch says in errors that have no class of their own: a CPU, cuBLAS, pinned memory.
OUT_OF_MEMORY = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
MOST_OF_A_MESSAGE = 200  # characters of what torch says
OnEnd = Callable[[Request, Sequence, BeamSearch | None], None]


def _ignore(request: Request, sequence: Sequence, search: BeamSearch | None) -> None:
    """Nobody wants the tokens."""


def _as_failure(error: RuntimeError | MemoryError) -> StepFailure | None:
    """What concerns one step alone, after which others may be computed; None for all else."""
    if isinstance(error, StepFailure):
        return error
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(words in str(error) for words in OUT_OF_MEMORY):
        return StepFailure(f"out of memory: {_first_line(error)}")
    return None


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:MOST_OF_A_MESSAGE]


class Executor:
    """One model on one device. `on_end` is given each sequence that has ended."""

    def __init__(
        self, runner: ModelRunner, contents: Contents, seed: int = 0, overlap: bool = False, on_end: OnEnd = _ignore
    ) -> None:
        self.runner, self.on_end = runner, on_end
        self.sequences = Sequences(contents, seed)
        self.inputs = StepInputs(runner.cache.block_size, self.sequences)
        self.searches: dict[str, BeamSearch] = {}  # by family
        self.stops: dict[Request, Stops] = {}  # of those that may stop
        self.least: dict[Request, Stops] = {}  # of those that may not stop yet
        self.in_flight: dict[Batch, tuple[StepInput | None, Future[Pending | StepFailure]]] = {}
        self.chosen: dict[Batch, Chosen | StepFailure] = {}
        self.places: dict[Request, int] = {}  # of the newest step: where among its tokens
        self.tokens: torch.Tensor | None = None  # of the newest step that has been launched, on the device
        self.thread = ThreadPoolExecutor(1, "engine") if overlap and runner.device.type == "cpu" else None

    def close(self) -> None:
        """Ends the thread, if there is one: to be called when the run is over, however it ended."""
        if self.thread is not None:
            self.thread.shutdown(cancel_futures=True)

    def prepare(self, request: Request) -> None:
        """The request arrives: what its sampling parameters ask of the core."""
        sampling = self.sequences.contents.sampling(request.index)
        stops = Stops.of(sampling, self.runner.model.config.eos_token_ids)
        if sampling.beam_width > 1:
            request.samples = sampling.beam_width
            self.searches[request.id] = BeamSearch(
                request, sampling, stops.token_ids, self.sequences, self._forget
            )  # fmt: skip
        if stops.token_ids and sampling.beam_width == 1:
            self.stops[request] = stops
        if stops.token_ids and stops.min_tokens:
            self.least[request] = stops

    # --- a step

    def launch(self, batch: Batch) -> None:
        """Begin to compute a batch that has just been planned."""
        if batch.empty:
            if batch.transfers:
                self._begin(batch, None, lambda: self._move(batch))
            return
        step = self.inputs.make(batch, self.places)
        for request in step.yielding:
            if request.siblings and request.siblings[0] is not request:
                self._as_its_parent(request)
        self.places = {request: place for place, request in enumerate(step.yielding) if request.beams is None}
        candidates = max((search.num_candidates for search in self.searches.values()), default=0)
        choice = choice_for(step.yielding, self.sequences, self.least, candidates)
        self._begin(batch, step, lambda: self._compute(batch, step, choice))

    def _as_its_parent(self, request: Request) -> None:
        parent = request.siblings[0]
        for stops in (self.stops, self.least):
            if parent in stops:
                stops.setdefault(request, stops[parent])

    def _begin(self, batch: Batch, step: StepInput | None, work: Callable[[], Pending | StepFailure]) -> None:
        if self.thread is not None:
            self.in_flight[batch] = step, self.thread.submit(work)
            return
        done: Future[Pending | StepFailure] = Future()
        done.set_result(work())
        self.in_flight[batch] = step, done

    def _move(self, batch: Batch) -> Pending:
        pending = Pending(self.runner.device)
        self.runner.cache.apply(batch.transfers)
        pending.end(pending.tokens, None)
        return pending

    @torch.inference_mode()
    def _compute(self, batch: Batch, step: StepInput, choice: Choice) -> Pending | StepFailure:
        """In the order of the launches, perhaps in a thread."""
        pending = Pending(self.runner.device)
        self.runner.cache.apply(batch.transfers)  # takes no memory; were it not done, others than this step's would suffer
        try:
            pending.end(*choice.choose(self.runner.logits(step, self.tokens)))
        except (RuntimeError, MemoryError) as error:
            failure = _as_failure(error)
            if failure is None and isinstance(error, torch.AcceleratorError):
                raise DeviceError(f"{self.runner.device} cannot go on: {_first_line(error)}") from error
            if failure is None:
                raise
            self.tokens = torch.full((len(step.yielding),), FAILED, device=self.runner.device)
            return failure
        self.tokens = pending.tokens
        return pending

    def wait(self, batch: Batch) -> Chosen | StepFailure | None:
        """Until the batch is done; None if there was nothing to do."""
        if batch in self.in_flight and batch not in self.chosen:
            pending = self.in_flight[batch][1].result()
            self.chosen[batch] = pending.fetch() if isinstance(pending, Pending) else pending
        return self.chosen.get(batch)

    def settle(self, batch: Batch, aborted: Iterable[Request] = ()) -> tuple[list[Request], dict[Request, str]]:
        """Tokens join their sequences, but for the aborted. Returns who stops with this batch, and who failed (-> why)."""
        chosen = self.wait(batch)
        if chosen is None:
            return [], {}
        step, _ = self.in_flight.pop(batch)
        del self.chosen[batch]
        if step is None:
            return [], {}
        if isinstance(chosen, StepFailure):
            return [], self._lost(step, str(chosen))
        awaited = {*batch.yielding, *(aside.request for aside in batch.asides if aside.yields)}
        return self._take(step, chosen, awaited.difference(aborted))

    def _take(self, step: StepInput, chosen: Chosen, awaited: set[Request]) -> tuple[list[Request], dict[Request, str]]:
        """Everybody gets its token. Nobody has to look for whom NaN has infected: whoever reads it has NaN itself."""
        stopped: list[Request] = []
        failed: dict[Request, str] = {}
        drawn = len(chosen.tokens)
        for request, token in zip(step.yielding[:drawn], chosen.tokens, strict=True):
            if request.state in ENDED or request not in awaited:
                continue  # one token more than it wanted
            if token == FAILED:
                failed[request] = NOT_FINITE
                continue
            self.sequences.append(request, token)
            if request in self.stops and self.stops[request].end(token):
                stopped.append(request)
        for request, pairs in zip(step.yielding[drawn:], chosen.candidates, strict=True):
            if any(token == FAILED for token, _ in pairs):
                failed |= dict.fromkeys(self._all_beams(request), NOT_FINITE)
            else:
                self.searches[request.family].offered[request] = pairs
        return stopped, failed

    def _lost(self, step: StepInput, why: str) -> dict[Request, str]:
        """Who fails with a step that was not computed: its own, and who has begun since with what it should have written."""
        block_size = self.runner.cache.block_size
        unwritten = step.written_blocks(block_size)
        later = [begun for begun, _ in self.in_flight.values() if begun is not None]
        failed = {request: NEVER_WRITTEN for begun in later for request in begun.readers_of(unwritten, block_size)}
        members = (*step.yielding, *step.requests)
        return failed | {each: why for member in members for each in self._all_beams(member)}

    def _all_beams(self, request: Request) -> list[Request]:
        """Whoever fails with a request: itself, or all beams of its search."""
        return [request] if request.beams is None else request.siblings or [request]

    def end(self, request: Request) -> None:
        """The request has ended, in whatever way."""
        sequence = self._forget(request)
        search = self.searches.get(request.family)
        if search is not None and all(member.state in ENDED for member in request.siblings or [request]):
            del self.searches[request.family]
        if sequence is not None:
            self.on_end(request, sequence, search)

    def _forget(self, request: Request) -> Sequence | None:
        self.inputs.tables.end(request)
        self.stops.pop(request, None)
        self.least.pop(request, None)
        return self.sequences.end(request)
