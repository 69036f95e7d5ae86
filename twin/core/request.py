"""A request, as the core keeps it.

Two integers explain everything: `computed`, the tokens whose KV is written or under way, and `generated`, the tokens that
came out. A token that a step in flight will yield is not known yet: a *placeholder* stands for it.

    known      prompt + generated
    pending    known + placeholders - computed: what a step may give it; 1 means "it decodes", 0 "all is in flight"

While a request is a lazy decoder (see decoders.py) its integers follow from `base` and nobody writes them; the `settled_`
ones are theirs at all other times. Ask `computed`, `generated`, `pending`: they are always right.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from twin.core.limits import blocks_for
from twin.policy import RequestView

if TYPE_CHECKING:
    from twin.core.beams import Beams
    from twin.core.block_pool import BlockPool
    from twin.core.decoders import Decoders

NEW, WAITING, RUNNING, SWAPPED, PAUSED = "new", "waiting", "running", "swapped", "paused"
FINISHED, REJECTED, ABORTED = "finished", "rejected", "aborted"
ENDED = (FINISHED, REJECTED, ABORTED)

Pause = tuple[int, float, int]  # after so many generated tokens; for so many seconds; tokens that it adds to the context


class Request:
    """One sequence: what was asked for, where it stands, what became of it."""

    __slots__ = (
        "id", "index", "arrival_s", "prompt_tokens", "max_tokens", "max_tokens_given", "stop_after", "user", "session",
        "priority", "deadline_s", "predicted_output", "samples", "block_keys", "shareable_blocks", "end_after", "pauses",
        "pauses_taken", "resumes_s",
        "state", "reason", "admission", "block_table", "host_blocks", "registered_blocks", "pool",
        "settled_computed", "settled_generated", "placeholders", "stale", "decoders", "base", "entered", "due",
        "first_scheduled_s", "first_token_s", "last_token_s", "finish_s", "cached_tokens", "preemptions", "swap_outs",
        "recomputed_tokens", "high_water", "forked", "siblings", "beams", "family", "own_from", "hashed_blocks",
        "hashed_before", "_view",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        arrival_s: float,
        prompt_tokens: int,
        output_tokens: int,
        max_tokens: int | None = None,
        *,
        index: int = 0,
        user: str | None = None,
        session: str | None = None,
        priority: int = 0,
        deadline_s: float | None = None,
        predicted_output: float | None = None,
        samples: int = 1,
        block_keys: Any = (),
        shareable_blocks: int | None = None,
        pauses: tuple[Pause, ...] = (),
    ) -> None:
        """`output_tokens` is where it ends: the true length in the simulator, max_tokens in an engine.

        `block_keys[i]` is the chained hash of the first i + 1 full blocks; blocks past the last key hold content of its
        own. `shareable_blocks`: no other request can hold the content of a block at this index or later (default: as
        many as keys). `samples`: sequences that are forked when the prompt is computed. `pauses`: see pauses.py.
        """
        if prompt_tokens < 1 or output_tokens < 1 or samples < 1 or pauses or max_tokens is not None:
            check_request(id, prompt_tokens, output_tokens, max_tokens, samples, pauses)
        self.id, self.index, self.arrival_s, self.prompt_tokens = id, index, arrival_s, prompt_tokens
        self.max_tokens_given = max_tokens
        self.max_tokens = output_tokens if max_tokens is None else max_tokens
        self.stop_after = self.end_after = min(output_tokens, self.max_tokens)
        self.pauses = pauses and tuple(pause for pause in pauses if pause[0] < self.end_after)  # those to come
        self.pauses_taken = 0
        self.resumes_s: float | None = None  # when its pause ends
        self.user, self.session, self.priority, self.deadline_s = user, session, priority, deadline_s
        self.predicted_output, self.samples = predicted_output, samples
        self.block_keys = block_keys
        self.shareable_blocks: int = len(block_keys) if shareable_blocks is None else shareable_blocks
        self.state: str = NEW
        self.reason: str | None = None  # why it ended as it did
        self.pool: BlockPool | None = None
        self.block_table: Any = ()  # a list while it holds blocks
        self.registered_blocks = 0  # so many blocks at the front of the table are in the hash table
        self.hashed_blocks = 0  # so many are full of known tokens: kept in mind for itself, at least (settled)
        self.hashed_before = 0  # ... before the plan under way
        self.settled_computed = self.settled_generated = self.placeholders = 0
        self.stale = 0  # batches in flight that belong to a life which a preemption ended
        self.preemptions = self.swap_outs = self.recomputed_tokens = 0
        self.high_water = 0  # the largest `computed` it ever lost: below it, computing is computing again
        self.forked = False  # a block of its table may be written by a sibling too: copy before writing
        self.siblings: list[Request] = []  # all samples of one request, once forked
        self.beams: Beams | None = None  # they are beams of one search; set before the request is added
        self.family, self.own_from = id, 0  # before this block its content bears the family's name
        self.admission: int = 0  # number of its latest admission: running order goes by it
        self.base: int | None = None  # not None: a lazy decoder
        self.entered = self.due = 0  # ... its first step as one, and the step with which it ends
        self.decoders: Decoders | None = None  # set by Decoders.enter
        self.host_blocks: dict[int, int] | None = None  # place in the table -> host block, while swapped
        self.first_scheduled_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None  # kept while it is not a lazy decoder
        self.finish_s: float | None = None
        self.cached_tokens: int | None = None  # found at its first admission
        self._view: RequestView | None = None

    def __repr__(self) -> str:
        return f"<{self.state} request {self.id}: {self.computed} computed, {self.generated} generated>"

    @property
    def computed(self) -> int:
        if self.base is None:
            return self.settled_computed
        assert self.decoders is not None
        return self.base + self.decoders.launched

    @property
    def generated(self) -> int:
        if self.base is None:
            return self.settled_generated
        assert self.decoders is not None
        return self.base + max(self.decoders.landed, self.entered - 1) + 1 - self.prompt_tokens

    @property
    def pending(self) -> int:
        if self.base is not None:
            return 1
        if self.placeholders and self.has_last_token_in_flight():
            return 0
        return self.prompt_tokens + self.settled_generated + self.placeholders - self.settled_computed

    def has_last_token_in_flight(self) -> bool:
        """No token can follow those in flight: it is passed over (vLLM's asynchronous scheduler)."""
        return self.settled_computed + 2 - self.placeholders >= self.prompt_tokens + self.max_tokens

    @property
    def known_tokens(self) -> int:
        """Tokens whose value is known: what an admission has to hold. For requests that are not lazy decoders."""
        return self.prompt_tokens + self.settled_generated

    def key(self, index: int) -> object:
        """What block `index` is known by: the hash of its content, or a name that nobody else can have."""
        keys = self.block_keys
        if index < len(keys):
            return keys[index]
        return self.family if index < self.own_from else self.id, index

    def keys_between(self, first: int, end: int) -> Any:
        """Those of the blocks from `first` on, before `end`."""
        if end <= len(self.block_keys):
            return self.block_keys[first:end]
        return [self.key(index) for index in range(first, end)]

    def keys_to_look_up(self, count: int) -> Any:
        """The first `count` keys, less those that cannot be cached: content of its own, unless it has run before."""
        keys = self.block_keys
        if count <= len(keys) or not (self.preemptions or self.pauses_taken):
            return keys[:count]
        return self.keys_between(0, count)

    def face_next_pause(self, end_after: int | None = None) -> None:
        """Where it stops next: at a pause, or at its end (which may be set); pauses at or beyond the end never come."""
        if end_after is not None:
            self.end_after = end_after
            if self.pauses:
                self.pauses = tuple(pause for pause in self.pauses if pause[0] < end_after)
        self.stop_after = self.pauses[0][0] if self.pauses else self.end_after

    @property
    def tokens_to_return(self) -> int:
        """What the pauses to come will add to its context."""
        return sum(returned for _, _, returned in self.pauses)

    # --- what a policy may ask

    @property
    def view(self) -> RequestView:
        if self._view is None:
            self._view = RequestView(self)
        return self._view

    def prompt_keys(self) -> tuple[Any, ...]:
        """The keys of the full blocks of its prompt, as far as it has keys that others may have too."""
        block_size = 1 if self.pool is None else self.pool.block_size
        return tuple(self.block_keys[: min(self.shareable_blocks, self.prompt_tokens // block_size)])

    def count_private_blocks(self) -> int:
        pool = self.pool
        if pool is None or not pool.extra_owners:  # nobody shares anything
            return len(self.block_table) - len(self.host_blocks or ())
        return sum(block is not None and pool.references(block) == 1 for block in self.block_table)

    def count_cached_tokens(self) -> int:
        if self.state != WAITING or self.pool is None:
            return self.cached_tokens or 0
        return len(self.pool.lookup(self)) * self.pool.block_size

    def count_admission_blocks(self) -> int:
        """Free blocks that its admission now would take: those that are missing, and hits that nobody else holds."""
        pool = self.pool
        if pool is None or self.state not in (WAITING, SWAPPED):
            return 0
        if self.host_blocks is not None:
            needed = blocks_for(self.settled_computed + self.pending, pool.block_size)
            return len(self.host_blocks) + max(0, needed - len(self.block_table))
        hits = pool.lookup(self)
        return blocks_for(self.known_tokens, pool.block_size) - len(hits) + pool.free_among(hits)


def check_request(
    id: str, prompt_tokens: int, output_tokens: int, max_tokens: int | None, samples: int, pauses: tuple[Pause, ...]
) -> None:
    """Raises ValueError for what cannot be a request."""
    for name, tokens in (("prompt", prompt_tokens), ("output", output_tokens), ("max_tokens", max_tokens)):
        if tokens is not None and tokens < 1:
            raise ValueError(f"request {id}: {name} of {tokens} tokens, at least 1 is needed")
    if samples < 1:
        raise ValueError(f"request {id}: n={samples} samples, at least 1 is needed")
    if pauses:
        check_pauses(pauses, f"request {id}", samples)


def check_pauses(pauses: tuple[Pause, ...], where: str, samples: int = 1) -> None:
    """Raises ValueError for what cannot be pauses: (after_tokens, seconds, returned_tokens), ascending."""
    if samples > 1:
        raise ValueError(f"{where}: pauses do not go with n={samples} samples")
    before = 0
    for after, seconds, returned in pauses:
        if after <= before:
            raise ValueError(f"{where}: a pause after {after} tokens, at least {before + 1} are needed (they must ascend)")
        if not 0 <= seconds < inf:
            raise ValueError(f"{where}: a pause of {seconds} s, it must be at least 0 s")
        if returned < 0:
            raise ValueError(f"{where}: a pause that returns {returned} tokens, it must be at least 0")
        before = after
