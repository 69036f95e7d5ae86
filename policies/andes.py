"""Who reads along and would miss the next words goes first: Andes."""

from collections import deque
from itertools import chain, islice
from math import inf

from twin.policy import Plan, Policy, RequestView


class Andes(Policy):
    """Most quality of experience for the memory: who has text left to read can wait, who would stare at a standstill cannot.

    Source: Andes (Liu et al., "Andes: Defining and Enhancing Quality-of-Experience in LLM-Based Text Streaming Services",
    2024). A user expects the first token `ttft_s` after the request and then `reading_tokens_per_s` a second; the quality of
    experience (QoE) is the area under what could be read, over the area under what was expected, at most 1. Every
    `interval_s`, if anybody waits, the batch is chosen anew: a knapsack of blocks, filled greedily by

        (QoE over the next horizon if served - if not) / context length

    A request of age a, with text for b more seconds, loses by waiting what lies behind the end of its text:
    gain = min(1, speed / reading speed) · ((horizon - max(b, ttft_s - a, 0)) / (a + horizon - ttft_s))², or 0. Where a full
    batch would be slower than users read, the largest batch that is not is tried as well, and the better sum taken.
    Who is chosen comes in, who is not is preempted by `policy.preemption_mode`. In between, running requests go on, decodes
    first, and free room goes to the next in that order, then to the longest waiting; when blocks run out, the last admitted
    gives way.

    It needs to know no lengths; to weigh batch sizes it needs the two step times. At overload not all that wait are weighed,
    only the oldest and the newest of them, so that a choice costs no more with 10,000 waiting than with `candidates`.

    Parameters:
        ttft_s: expected time to the first token, seconds.
        reading_tokens_per_s: expected speed of the tokens after it, tokens a second (4.8: reading English).
        interval_s: seconds between two choices of the batch.
        horizon_s: seconds that a choice looks ahead; more than ttft_s.
        max_preemptions: a running request that was preempted so often is not taken off by a choice again.
        candidates: so many of the waiting requests are weighed, half of them the oldest, half the newest.
        step_s: seconds of a decode step whatever its size.
        per_request_s: seconds that each request adds to it.
    """

    def __init__(
        self,
        ttft_s: float = 1.0,
        reading_tokens_per_s: float = 4.8,
        interval_s: float = 0.25,
        horizon_s: float = 10.0,
        max_preemptions: int = 1,
        candidates: int = 64,
        step_s: float = 0.02,
        per_request_s: float = 0.0002,
    ) -> None:
        for name, value in (("reading_tokens_per_s", reading_tokens_per_s), ("interval_s", interval_s), ("step_s", step_s)):
            if not 1e-9 <= value <= 1e9:
                raise ValueError(f"{name} must be above 0, 1e-9 to 1e9, not {value}")
        if not 0 <= ttft_s < inf:
            raise ValueError(f"ttft_s must be 0 or more seconds, not {ttft_s}")
        if not ttft_s < horizon_s < inf:
            raise ValueError(f"horizon_s must be more seconds than ttft_s={ttft_s}, not {horizon_s}")
        if max_preemptions < 0:
            raise ValueError(f"max_preemptions must be 0 or more, not {max_preemptions}")
        if candidates < 2:
            raise ValueError(f"candidates must be 2 or more requests, not {candidates}")
        if per_request_s and not 1e-9 <= per_request_s <= 1e9:
            raise ValueError(f"per_request_s must be 0 or more seconds, and if more 1e-9 to 1e9, not {per_request_s}")
        self.ttft_s, self.reading, self.interval_s, self.horizon_s = ttft_s, reading_tokens_per_s, interval_s, horizon_s
        self.max_preemptions, self.each_end = max_preemptions, candidates // 2
        self.step_s, self.per_request_s = step_s, per_request_s
        self.chosen_s = -inf  # when the batch was chosen last
        self.most: float = inf  # requests in it
        self.next: deque[RequestView] = deque()  # weighed and left out or not in yet, in order
        self.line: deque[RequestView] = deque()  # who waits, by arrival; who has left it is no longer "waiting"
        self.read: dict[RequestView, tuple[float, float]] = {}  # at that time, so many tokens had been read

    # --- the queue

    def on_wait(self, request, view):
        (self.line.appendleft if request.preemptions else self.line.append)(request)

    def pick(self, view):
        return next(chain(waiting(self.next), waiting(self.line)), None)

    def on_admit(self, request, view):
        self.read.setdefault(request, (view.now, 0.0))

    def on_finish(self, request, view):
        self.read.pop(request, None)

    # --- a step

    def schedule(self, view):
        plan = Plan(view)
        in_choice = self.is_due(view)
        if in_choice:
            self.choose(plan, view)
        for request in view.prefills if plan.take_decodes() else view.running:
            while not plan.take(request) and plan.budget and request.state == "running":
                plan.preempt(plan.victim())
        refused = None if plan.preempted and not in_choice else self.let_in(plan, view)
        # with somebody swapped out the core does not watch for blocks that whoever waits could come to share
        self.steady = not (view.num_swapped and refused and refused.state == "waiting")
        return plan

    def let_in(self, plan, view):
        """Take in who is next while there is room; returns who was refused, if anybody."""
        while plan.budget and view.num_running < self.most and (request := self.first(view)):
            if not plan.take(request):
                return request
        return None

    def first(self, view):
        while self.next and self.next[0].state not in ("waiting", "swapped"):
            self.next.popleft()
        if self.next:
            return self.next[0]
        return view.swapped_head or self.pick(view)

    # --- the choice

    def is_due(self, view):
        return view.now >= self.chosen_s + self.interval_s and (view.num_waiting or view.num_swapped)

    def steady_until(self, view):
        return self.chosen_s + self.interval_s if view.num_waiting or view.num_swapped else inf

    def choose(self, plan, view):
        self.chosen_s = view.now
        running = view.running
        pinned = {request: None for request in running if request.preemptions >= self.max_preemptions}
        weighed = [(self.gain(request, view), request) for request in self.weighed(running, view) if request not in pinned]
        in_order = [*pinned, *(request for _, request in sorted(weighed, key=density))]
        gains = {request: gain for gain, request in weighed}
        batch, self.most = self.best(in_order, gains, view)
        for request in running:
            if request not in batch:
                plan.preempt(request)
        outside = [request for request in in_order if request.state != "running"]
        self.next = deque(sorted(outside, key=lambda request: request not in batch))

    def weighed(self, running, view):
        """Everybody who runs or is swapped out, and of those who wait the oldest and the newest."""
        oldest = ends_of(self.line, self.each_end, self.line.popleft, self.line.extendleft)
        newest = ends_of(self.line, self.each_end, self.line.pop, self.line.extend)
        return dict.fromkeys([*running, *view.swapped, *oldest, *newest])

    def gain(self, request, view):
        """QoE lost over the horizon by not being served, of a user who reads as fast as expected."""
        age = view.now - request.arrival_s
        at, read = self.read.get(request, (view.now, 0.0))
        read = min(request.generated, read + self.reading * (view.now - at))
        if request in self.read:
            self.read[request] = view.now, read
        idle_from_s = max((request.generated - read) / self.reading, self.ttft_s - age, 0.0)
        return (max(0.0, self.horizon_s - idle_from_s) / (age + self.horizon_s - self.ttft_s)) ** 2

    def best(self, in_order, gains, view):
        """The batch with the largest sum of gains, of those that are worth trying, and how many may run."""
        full = self.packed(in_order, view)
        size = int((1 / self.reading - self.step_s) / self.per_request_s + 1e-9) if self.per_request_s else len(full)
        if not 1 <= size < len(full):
            return full, inf
        fast = dict.fromkeys(islice(full, size))  # packed in the same order
        slowed = 1 / (self.reading * (self.step_s + self.per_request_s * len(full)))
        total = sum(gains.get(request, 0.0) for request in full) * min(1.0, slowed)
        return (fast, size) if sum(gains.get(request, 0.0) for request in fast) > total else (full, inf)

    def packed(self, in_order, view):
        """As many of them as fit, in order; one that is too long is passed over."""
        room = view.free_blocks + sum(request.blocks for request in in_order if request.state == "running")
        batch: dict[RequestView, None] = {}
        for request in in_order:
            if len(batch) == view.limits.max_num_seqs:
                break
            needed = blocks_needed(request, view.limits.block_size)
            if needed <= room or (not batch and request.state == "running"):
                batch[request] = None
                room -= needed
        return batch


def blocks_needed(request, block_size):
    """To hold it and its next token, of those that are free or held by whoever runs. Shared blocks count for each owner, so
    that a batch may turn out too large; then who comes last in it has to wait."""
    whole = -(-(request.prompt_tokens + request.generated + 1) // block_size)
    if request.state == "running":
        return max(whole, request.blocks)
    return max(0, whole - request.blocks) + request.host_blocks


def waiting(requests):
    return (request for request in requests if request.state == "waiting")


def density(weighed):
    """Largest gain for its context first; who runs before who does not, then by arrival."""
    gain, request = weighed
    context = request.prompt_tokens + request.generated
    return -gain / context, request.state != "running", request.arrival_s, request.id


def ends_of(line, count, take, put_back):
    """The `count` first that wait still, from the end at which `take` takes."""
    found: list[RequestView] = []
    while line and len(found) < count:
        request = take()
        if request.state == "waiting":
            found.append(request)
    put_back(reversed(found))
    return found
