"""A request of vLLM's, as a policy of ours sees it: what `twin.policy.RequestView` asks for, read from vLLM's own request.

Nothing is kept twice: counts are vLLM's, asked when they are asked for. What vLLM has no word for (user, deadline, predicted
length) comes with the request, in `SamplingParams.extra_args`.
"""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

from twin.policy import RequestView

if TYPE_CHECKING:
    from engine.vllm._state import State

PREDICTED, USER, SESSION = "twin_predicted_output", "twin_user", "twin_session"
DEADLINE, WITHIN, PRIORITY = "twin_deadline_s", "twin_within_s", "twin_priority"
EXTRA_ARGS = {  # what each says, for messages and the documentation
    PREDICTED: "tokens that it will put out, as far as anybody knows",
    USER: "whose request it is",
    SESSION: "the conversation that it belongs to",
    DEADLINE: "when it has to be done: seconds, on the clock of arrivals (Unix time)",
    WITHIN: "the same, in seconds after its arrival",
    PRIORITY: "an integer, the lowest goes first; vLLM's own `priority` counts where this is not given",
}
STATES = {"WAITING": "waiting", "PREEMPTED": "waiting", "RUNNING": "running", "FINISHED_ABORTED": "aborted"}


class Record:
    """A request with a policy. vLLM's has it as `twin_record`."""

    __slots__ = (
        "request", "state_", "view", "id", "arrival_s", "prompt_tokens", "user", "session", "priority", "deadline_s",
        "predicted_output", "cached_at_first", "admission", "place", "rejected", "coming", "samples", "cached_before",
        "allocated_in", "known",
    )  # fmt: skip

    def __init__(self, request: Any, state: State) -> None:
        """Raises ValueError, in words, for extra arguments that say nothing."""
        self.request, self.state_ = request, state
        self.view = RequestView(self)
        self.id: str = request.request_id
        self.arrival_s: float = request.arrival_time
        self.prompt_tokens: int = request.num_prompt_tokens
        self.predicted_output: float | None = None
        self.cached_at_first: int | None = None  # tokens found at its first admission
        self.admission = 0  # number of its latest admission
        self.place: str | None = None  # which part of the waiting queue it is in
        self.rejected = False
        self.known = False  # to the policy: it has heard of its arrival
        self.coming = 0  # tokens of the step that has just ended, while the policy is told of it
        self.samples = 1
        self.cached_before = 0  # blocks that others could find, before the plan in which it was last given any: that one
        self.allocated_in = 0
        self.user: str | None = None
        self.session: str | None = getattr(request, "session_id", None)
        self.priority: int = request.priority
        self.deadline_s: float | None = None
        sampling = request.sampling_params
        given = sampling.extra_args if sampling is not None else None
        if given:
            self._read(given)

    def _read(self, given: dict[str, Any]) -> None:
        unknown = [name for name in given if name.startswith("twin_") and name not in EXTRA_ARGS]
        if unknown:
            raise ValueError(f"{unknown[0]}: no such extra argument; there are {', '.join(EXTRA_ARGS)}")
        if (user := given.get(USER)) is not None:
            self.user = str(user)
        if (session := given.get(SESSION)) is not None:
            self.session = str(session)
        if (priority := given.get(PRIORITY)) is not None:
            self.priority = int(_number(PRIORITY, priority))
        if (predicted := given.get(PREDICTED)) is not None:
            tokens = _number(PREDICTED, predicted)
            self.predicted_output = tokens if tokens >= 1 else 1
        if given.get(WITHIN) is not None:
            self.deadline_s = self.arrival_s + _number(WITHIN, given[WITHIN])
        if given.get(DEADLINE) is not None:
            self.deadline_s = _number(DEADLINE, given[DEADLINE])

    def __repr__(self) -> str:
        return f"<{self.state} request {self.id}>"

    # --- what RequestView asks for

    @property
    def max_tokens_given(self) -> int:
        """vLLM's requests always have a limit: what `max_model_len` leaves, if the client gave none."""
        tokens: int = self.request.max_tokens
        return tokens

    @property
    def state(self) -> str:
        if self.rejected:
            return "rejected"
        return STATES.get(self.request.status.name, "finished")

    @property
    def computed(self) -> int:
        tokens: int = self.request.num_computed_tokens
        return tokens

    @property
    def generated(self) -> int:
        return self.request.num_output_tokens + self.coming

    @property
    def known_tokens(self) -> int:
        tokens: int = self.request.num_tokens
        return tokens

    @property
    def pending(self) -> int:
        request = self.request
        in_flight: int = request.num_output_placeholders
        computed: int = request.num_computed_tokens
        if in_flight and computed + 2 - in_flight >= request.num_prompt_tokens + request.max_tokens:
            return 0  # its last possible token is in flight
        tokens: int = request.num_tokens + in_flight - computed
        return tokens

    @property
    def preemptions(self) -> int:
        count: int = self.request.num_preemptions
        return count

    @property
    def block_table(self) -> Any:
        """vLLM's blocks, in order."""
        return self.state_.manager.req_to_blocks.get(self.id, ())

    host_blocks = None

    def prompt_keys(self) -> tuple[Any, ...]:
        """vLLM's chained hashes of the full blocks of the prompt; nothing without a prefix cache."""
        state = self.state_
        every = state.hashes_in_block
        full_blocks = self.prompt_tokens // state.limits.block_size
        return tuple(self.request.block_hashes[every - 1 : full_blocks * every : every])

    def count_private_blocks(self) -> int:
        return sum(block.ref_cnt == 1 for block in self.block_table)

    def count_cached_tokens(self) -> int:
        if self.state != "waiting":
            return self.cached_at_first or 0
        return len(self.state_.hits(self.request)) * self.state_.limits.block_size

    def count_admission_blocks(self) -> int:
        if self.state != "waiting":
            return 0
        hits = self.state_.hits(self.request)
        needed = -(-self.known_tokens // self.state_.limits.block_size)
        return needed - len(hits) + sum(block.ref_cnt == 0 for block in hits)


def _number(name: str, value: object) -> Any:
    """A number as a client may write it: JSON that has passed through a form comes as text."""
    number: Any = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, Real) or not isfinite(number):
        raise ValueError(f"{name} must be a number, not {str(value)[:100]!r} ({EXTRA_ARGS[name]})")
    return number
