"""What a policy sees and returns. Imports nothing of the project.

A policy is the vLLM V1 step with some decisions changed (DESIGN of the step: `twin/core/step.py`, `twin/core/admission.py`).
A hook left at None is the default and costs nothing: it is never called. Every view is read-only, always current, and
knows no true output length, no wall clock and no live object of the core.

    class Shortest(Policy):
        '''Shortest predicted remaining output first.'''
        needs_prediction = True

        def order(self, request, view):          # smaller goes first
            return request.predicted_output - request.generated

A policy that wants everything overrides `schedule(view) -> Plan` and puts the step together itself.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any


class Answer(IntEnum):
    """What `Policy.admit` says of the head of the queue; True and False mean ADMIT and LATER."""

    NEVER = -1  # it is rejected
    LATER = 0  # it waits, and all behind it
    ADMIT = 1


ADMIT, LATER, NEVER = Answer.ADMIT, Answer.LATER, Answer.NEVER


class Policy:
    """The base of all policies: its hooks, and the declarations by which the core can be fast.

    `request` is a `RequestView`, `view` a `SystemView`. Times are seconds, counts are tokens or blocks, integers.
    """

    order: Callable[..., Any] | None = None
    """order(request, view) -> key; the smallest goes first. None: order of arrival, preempted ones in front. It is asked
    when a request comes into the queue; where a key changes later, say so: `view.reorder(request)`, or `dynamic`."""
    pick: Callable[..., Any] | None = None
    """pick(view) -> the waiting request that is the head of the queue, or None: nobody for now. For a policy that keeps the
    queue itself: `on_wait` tells of each that comes into it, and one that has left it is no longer `state` "waiting"."""
    admit: Callable[..., Any] | None = None
    """admit(request, view) -> ADMIT | LATER | NEVER: may the head of the queue come in? None: if it fits. A plan of the
    policy's own asks it too, of each that it would take in."""
    chunk: Callable[..., Any] | None = None
    """chunk(request, offered, view) -> 1..offered tokens of this step for a request that is not decoding. None: all."""
    victim: Callable[..., Any] | None = None
    """victim(running, view) -> the running request that gives up its blocks. None: the last admitted."""
    mode: Callable[..., Any] | None = None
    """mode(request, view) -> "recompute" | "swap" | "keep" for a victim. None: the option `policy.preemption_mode`.
    "keep" takes the seat alone: its blocks stay where they are until somebody needs them (then they are swapped out, or
    given up where the host has no room)."""
    pause: Callable[..., Any] | None = None
    """pause(request, view) -> "recompute" | "swap" | "keep" for the blocks of a request that gives up its seat while a tool
    runs, for how long nobody knows. None: the option `policy.pause`. Kept blocks stay until somebody needs them."""
    background: Callable[..., Any] | None = None
    """background(view) -> [(request, "out" | "in"), ...]: moves of swapped requests between device and host ahead of need,
    asked once a step, after it is put together. "out": the blocks of a kept request; "in": they come back, if blocks are
    free, and the request stands ready. A move that cannot be made is left out."""
    reserve: Callable[..., Any] | None = None
    """reserve(request, view) -> tokens that the contiguous allocator sets aside. None: max_model_len."""
    schedule: Callable[..., Any] | None = None
    """schedule(view) -> Plan: the whole step at once. None: the vLLM V1 step with the hooks above."""
    on_plan: Callable[..., Any] | None = None
    """on_plan(view): a step is about to be put together (not told of steps that are certain to be decodes alone)."""
    on_arrival: Callable[..., Any] | None = None
    """on_arrival(request, view)"""
    on_wait: Callable[..., Any] | None = None
    """on_wait(request, view): it comes into the waiting queue: at its arrival, or back from a preemption by recompute."""
    on_admit: Callable[..., Any] | None = None
    """on_admit(request, view)"""
    on_preempt: Callable[..., Any] | None = None
    """on_preempt(request, mode, view): after `on_wait`, where it is recomputed and waits again."""
    on_pause: Callable[..., Any] | None = None
    """on_pause(request, view): its pause begins, the seat is free. None: it is told as a preemption, to `on_preempt`."""
    on_resume: Callable[..., Any] | None = None
    """on_resume(request, view): its pause is over; it is about to wait (on_wait), or to stand among the swapped."""
    on_finish: Callable[..., Any] | None = None
    """on_finish(request, view): it has all its tokens, or was aborted."""
    on_step: Callable[..., Any] | None = None
    """on_step(view, batch, k): k equal steps have just been done. `batch.by_user`: tokens yielded in one of them by
    user; `batch.requests`: who yielded (a loop over all: use by_user where it will do)."""

    steady: bool = True
    """The plan changes only at events (arrival, admission, finish, preemption). Of a preemptive order (`preempts`) this is
    believed only where the policy says so itself: under least attained service, say, a running request comes to stand
    behind whoever waits by running alone. One that says it, and has neither `steady_steps` nor `steady_until`, says that the
    key of a running request never grows."""
    steady_steps: Callable[..., Any] | None = None
    """steady_steps(view) -> k: if all are decodes and nothing else happens, its decisions stay what they are in this plan
    for so many steps at least, this one among them; then comes a plan. Asked at the end of a plan that left somebody
    waiting, of the state before the step. None: for as long as nothing happens (see `steady`)."""
    steady_until: Callable[..., Any] | None = None
    """steady_until(view) -> seconds: a time before which its decisions stay what they are in this plan; asked at the same
    moment. None: no time matters."""
    key_steps: Callable[..., Any] | None = None
    """key_steps(request, key, view) -> k: with `preempts`, of an order in which those who run only fall behind. The running
    `request` comes after `key` (its own, or one that it stands before) no earlier than with k more tokens of its own. Then
    the keys of those who run are kept and not asked for at each plan, and a plan stands until somebody may come to stand
    behind who is next in line. A key that changes otherwise: `view.reorder(request)`."""
    dynamic: bool = False
    """`order` may change while a request waits: it is asked of all that wait, again and again. Rather than that, say which
    changed, `view.reorder(request)`."""
    group: str | None = None
    """... and then depends on this attribute of a request alone; order of arrival inside a group."""
    preempts: bool = False
    """The order is preemptive: a head without seat or blocks takes those of the last in order, if that comes after it."""
    needs_prediction: bool = False
    """It cannot do without `request.predicted_output`: a run without a predictor is refused."""
    allocator: str = "paged"
    """The allocator that the policy was made for: "paged" or "contiguous"."""


def declares_steady(policy: Policy) -> bool:
    """Whether its author says `steady`, one way or the other."""
    return any("steady" in vars(kind) for kind in type(policy).__mro__[:-2])  # all but Policy and object


def _not_there(what: str, view: type, name: str) -> str:
    """What to say of an attribute that a view lacks."""
    from difflib import get_close_matches  # only an error needs it

    there = [known for known in vars(view) if not known.startswith("_")]
    if name in there:
        return f"{what} cannot tell its {name} now"
    close = get_close_matches(name, there, n=1)
    return f"{what} has no {name}; " + (f"did you mean {close[0]}?" if close else f"it has {', '.join(there)}")


class RequestView:
    """A request as a policy sees it."""

    __slots__ = ("_request",)
    _request: Any

    def __init__(self, request: Any) -> None:
        object.__setattr__(self, "_request", request)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy may not write {name}")

    def __repr__(self) -> str:
        return f"<request {self._request.id}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(_not_there("a request", type(self), name))

    id = property(attrgetter("_request.id"))
    arrival_s = property(attrgetter("_request.arrival_s"))
    prompt_tokens = property(attrgetter("_request.prompt_tokens"))
    max_tokens = property(attrgetter("_request.max_tokens_given"), doc="the request's own limit, or None")
    user = property(attrgetter("_request.user"))
    session = property(attrgetter("_request.session"))
    priority = property(attrgetter("_request.priority"))
    deadline_s = property(attrgetter("_request.deadline_s"))
    predicted_output = property(attrgetter("_request.predicted_output"), doc="tokens, or None without a predictor")
    state = property(attrgetter("_request.state"), doc='"waiting" | "running" | "swapped" | "paused" | ...')
    computed = property(attrgetter("_request.computed"), doc="tokens whose KV is written, or launched")
    generated = property(attrgetter("_request.generated"), doc="tokens that came out")
    pending = property(attrgetter("_request.pending"), doc="tokens a step may give it; 1: it decodes")
    preemptions = property(attrgetter("_request.preemptions"))
    blocks = property(lambda self: len(self._request.block_table))
    prefix_keys = property(
        lambda self: self._request.prompt_keys(),
        doc="one key a full block of the prompt that others may share: equal keys, equal content up to there",
    )
    private_blocks = property(lambda self: self._request.count_private_blocks())
    host_blocks = property(lambda self: len(self._request.host_blocks or ()))
    cached_tokens = property(
        lambda self: self._request.count_cached_tokens(), doc="prompt tokens that an admission now would find cached"
    )
    admission_blocks = property(
        lambda self: self._request.count_admission_blocks(),
        doc="free blocks that its admission now would take, cached ones among them (paged allocator)",
    )


class SystemView:
    """The system as a policy sees it. Lists are built when asked for: ask for counts where counts will do."""

    __slots__ = ("_state",)
    _state: Any

    def __init__(self, state: Any) -> None:
        object.__setattr__(self, "_state", state)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy may not write {name}")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(_not_there("the view", type(self), name))

    now = property(attrgetter("_state.now"), doc="seconds of virtual (simulator) or engine time")
    plan_number = property(attrgetter("_state.plans"), doc="equal between two calls only within one plan")
    limits = property(attrgetter("_state.limits"))
    num_running = property(lambda self: len(self._state.running))
    num_waiting = property(lambda self: len(self._state.waiting))
    num_swapped = property(lambda self: len(self._state.swapped))
    num_paused = property(lambda self: len(self._state.paused))
    head = property(lambda self: self._state.head_view(), doc="who is first in the waiting queue, or None")
    swapped_head = property(lambda self: self._state.swapped_head_view(), doc="who of the swapped comes back first, or None")
    running = property(lambda self: [request.view for request in self._state.running])
    prefills = property(
        lambda self: [request.view for request in self._state.prefills],
        doc="of the running: those with more than a token to compute, and those that a step has left out; all others decode",
    )
    waiting = property(lambda self: [request.view for request in self._state.waiting.in_order()])
    swapped = property(lambda self: [request.view for request in self._state.swapped])
    paused = property(lambda self: [request.view for request in self._state.paused], doc="the longest paused first")
    free_blocks = property(lambda self: self._state.pool.num_free)
    free_host_blocks = property(lambda self: len(self._state.pool.free_host))

    def reorder(self, request: RequestView) -> None:
        """`order` has another key for this request now; it takes its new place."""
        self._state.reorder(request._request)


class Plan:
    """One step put together by `Policy.schedule`.

    `take` and `preempt` do the block arithmetic on the real pool and take effect at once, so that `view` always shows
    what is left: no policy repeats the arithmetic, and no plan can be illegal without being told so.
    """

    __slots__ = ("_step", "_view")

    def __init__(self, view: SystemView) -> None:
        self._view = view
        self._step = view._state.begin_plan()

    @property
    def budget(self) -> int:
        """Tokens of this step that are left."""
        return self._step.budget

    @property
    def tokens(self) -> Mapping[RequestView, int]:
        """Who gets how much so far; to give is `take`."""
        return MappingProxyType({request.view: tokens for request, tokens in self._step.all_given().items()})

    @property
    def empty(self) -> bool:
        """Nobody has been given anything so far."""
        return not self._step.given and not self._step.decodes_taken

    @property
    def preempted(self) -> bool:
        """Somebody has been preempted in this plan."""
        return bool(self._step.preempted)

    def take(self, request: RequestView, tokens: int | None = None) -> bool:
        """Give the request `tokens` of its pending ones (None: as many as the budget allows).

        False, and nothing is changed, where budget, seats or blocks do not allow it; True also for a running request of
        which all tokens are in flight (asynchronous scheduling): it needs nothing in this step. A request that
        waits comes in whole: all that it holds must fit, though only `tokens` of it are computed in this step,
        and `admit`, the policy's or its part's, must say ADMIT (after NEVER it is rejected, and the answer is False).
        """
        return self._step.take(request._request, tokens)

    def take_decodes(self) -> bool:
        """Give all that decode their token at once, in order of admission: all of `view.running` but `view.prefills`.

        It costs what it hands out in blocks, not who runs. False, and nothing is changed, where budget or blocks may not
        be enough for all, or some have been given tokens already: `take` them one by one then.
        """
        return self._step.take_decodes()

    def victim(self) -> RequestView:
        """Whose blocks to take: the choice of `policy.victim` or of the hook `victim`, else the last admitted."""
        return self._step.victim().view

    def preempt(self, request: RequestView, mode: str | None = None) -> None:
        """Take a running request off; what this plan had given it returns to the budget."""
        self._step.preempt(request._request, mode)


def user_weights(text: str) -> dict[str | None, float]:
    """Of "alice:2,bob:0.5" a number a user, for policies with such a parameter; raises ValueError with what it should be."""
    weights: dict[str | None, float] = {}
    for part in text.split(",") if text else ():
        user, _, number = part.strip().rpartition(":")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if not user or not 1e-6 <= weight <= 1e6:
            raise ValueError(f"weights must be user:weight, comma between them, weights 1e-6 to 1e6, not {part.strip()!r}")
        if user in weights:
            raise ValueError(f"weights must name a user once, not {user} twice")
        weights[user] = weight
    return weights
