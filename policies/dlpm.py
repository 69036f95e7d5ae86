"""Deficit longest prefix match: cached prefixes first, among users who have not had their share."""

from bisect import bisect_left, insort
from heapq import heappop, heappush, heapreplace
from itertools import count

from twin.policy import Policy, RequestView

EVER = 1 << 60  # steps


class Dlpm(Policy):
    """Of users whose deficit is positive, the request that finds most of its prompt in the cache goes first.

    Source: Cao et al., "Locality-aware Fair Scheduling in LLM Serving", 2025 (arXiv 2501.14312). A user's deficit is what it
    may still be served: a request takes its prompt tokens that are not cached from it at the admission (not again after a
    preemption), and each output token when it comes. When of all users of whom somebody waits none has a positive deficit,
    every user without one gets a quantum, as often as it takes. The quantum is the price of locality: a large one lets one
    user's shared prefixes go in a row, a small one is close to `vtc`. A new user has nothing until the next refill.

    Matches are looked up at most once a plan, after an arrival, admission, preemption or end. It needs a prefix cache;
    without one the order is that of arrival, among users with a positive deficit.

    Parameters:
        quantum_tokens: tokens (by cost) of a refill.
        prompt_weight: cost of a prompt token that is not cached.
        output_weight: cost of an output token.
        window: requests that are looked at, the earliest ones of those users.
    """

    def __init__(
        self, quantum_tokens: int = 2000, prompt_weight: float = 1.0, output_weight: float = 2.0, window: int = 128
    ) -> None:
        for name, number in (("quantum_tokens", quantum_tokens), ("window", window)):
            if number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        for name, value in (("prompt_weight", prompt_weight), ("output_weight", output_weight)):
            if value and not 1e-6 <= value <= 1e6:  # beyond, counters are no numbers any more
                raise ValueError(f"{name} must be 0 or more, and if more 1e-6 to 1e6, not {value}")
        self.quantum, self.window = quantum_tokens, window
        self.prompt_weight, self.output_weight = prompt_weight, output_weight
        self.users: dict[str | None, _User] = {}
        self.active: dict[_User, None] = {}  # of whom somebody runs
        self.ready: list[tuple[float, str, int, _User]] = []  # heap of users with a positive deficit, by earliest request
        self.later: list[tuple[int, int, _User]] = []  # heap of those without, by the refill which makes it positive
        self.number = count()
        self.refills = 0  # so many there have been
        self.matches: dict[RequestView, int] = {}
        self.outdated = False  # the matches
        self.by_user: dict[str | None, int] = {}  # tokens of the last step

    # --- who is next

    def on_plan(self, view):
        if self.outdated:
            self.matches, self.outdated = {}, False

    def pick(self, view):
        self.refill()
        if not self.ready:
            return None
        if not view.limits.enable_prefix_caching:
            return self.ready[0][-1].head()
        earliest = self.earliest()
        for request in earliest:
            if request not in self.matches:
                self.matches[request] = request.cached_tokens
        return max(earliest, key=self.matches.__getitem__)  # the earliest of equals

    def refill(self):
        """Until somebody is ready, as long as anybody waits."""
        self.mend_ready()
        while not self.ready and self.later:
            refills, number, user = self.later[0]
            if number != user.entry or user.head() is None:  # or it stands there a second time
                heappop(self.later)
            elif refills == (needed := self.refills + self.refills_needed(user)):
                self.refills = max(self.refills, refills)
                self.release()
            else:
                heapreplace(self.later, (needed, number, user))

    def release(self):
        """Those whose deficit the refills have made positive are ready."""
        while self.later and self.later[0][0] <= self.refills:
            _, number, user = heappop(self.later)
            if number == user.entry:
                self.stand_in_line(user)
        self.mend_ready()

    def mend_ready(self):
        """The first of those who are ready is so indeed."""
        while self.ready and not self.is_right(self.ready[0]):
            *_, number, user = heappop(self.ready)
            if number == user.entry:
                self.stand_in_line(user)

    def is_right(self, entry):
        arrival_s, name, number, user = entry
        if number != user.entry or user.head() is None or self.refills_needed(user):
            return False
        return user.waiting[0][:2] == (arrival_s, name)

    def stand_in_line(self, user):
        if user.head() is None:
            return
        user.entry = next(self.number)
        if needed := self.refills_needed(user):
            heappush(self.later, (self.refills + needed, user.entry, user))
        else:
            heappush(self.ready, (*user.waiting[0][:2], user.entry, user))

    def earliest(self):
        """The earliest `window` requests of users who are ready."""
        found: list[RequestView] = []
        users: list[tuple[float, str, int, _User]] = []
        lines: list[tuple[float, str, int, _User]] = []
        while len(found) < self.window:
            self.mend_ready()
            if self.ready and (not lines or self.ready[0][:2] < lines[0][:2]):
                users.append(heappop(self.ready))
                heappush(lines, (*users[-1][:2], 0, users[-1][-1]))
            elif not lines:
                break
            *_, place, user = heappop(lines)
            request = user.waiting[place][-1]
            if request.state == "waiting":
                found.append(request)
            if place + 1 < len(user.waiting):
                heappush(lines, (*user.waiting[place + 1][:2], place + 1, user))
        for entry in users:
            heappush(self.ready, entry)
        return found

    # --- deficits

    def refills_needed(self, user):
        self.settle(user)
        return self.refills_to_be_ready(user)

    def settle(self, user):
        """The refills since it was looked at last."""
        user.quanta += min(self.refills - user.refills, self.refills_to_be_ready(user))
        user.refills = self.refills

    def refills_to_be_ready(self, user):
        """Until its deficit is positive: 0 if it is, being a quantum at most."""
        return int(-self.deficit(user) // self.quantum) + 1

    def deficit(self, user):
        return self.quantum * user.quanta - self.prompt_weight * user.prompts - self.output_weight * user.outputs

    def steady_steps(self, view):
        """As long as nobody who is ready runs out of its deficit."""
        steps = EVER
        if self.output_weight and view.num_running < view.limits.max_num_seqs:
            for user in self.active:
                if user.waiting and not self.refills_needed(user):
                    growth = self.output_weight * max(len(user.running), self.by_user.get(user.name, 0))
                    steps = min(steps, int(self.deficit(user) / growth))
        return steps

    # --- what happens

    def on_wait(self, request, view):
        user = self.users.get(request.user)
        if user is None:
            user = self.users[request.user] = _User(request.user, self.refills)
        insort(user.waiting, (request.arrival_s, request.id, request))
        if user.head() is request:
            self.stand_in_line(user)
        self.outdated = True

    def on_admit(self, request, view):
        user = self.users[request.user]
        user.take_out(request)
        user.running.add(request)
        self.active[user] = None
        if not request.preemptions:
            self.settle(user)
            user.prompts += request.prompt_tokens - request.computed  # so far: what was cached
        self.outdated = True

    def on_step(self, view, batch, k):
        self.by_user = batch.by_user
        for name, tokens in batch.by_user.items():
            user = self.users[name]
            if user.refills != self.refills:
                self.settle(user)
            user.outputs += tokens * k

    def on_preempt(self, request, mode, view):
        self.stop(self.users[request.user], request)

    def on_finish(self, request, view):
        user = self.users[request.user]
        user.take_out(request)
        self.stop(user, request)

    def stop(self, user, request):
        user.running.discard(request)
        if not user.running:
            self.active.pop(user, None)
        self.outdated = True


class _User:
    """Who waits, in order of arrival, who runs, and what it may still be served."""

    def __init__(self, name: str | None, refills: int) -> None:
        self.name = name
        self.quanta = self.prompts = self.outputs = 0  # refills that it got, tokens that it spent
        self.refills = refills  # of which it has had its part
        self.entry = -1  # the number of its valid entry among those who are ready, or later
        self.waiting: list[tuple[float, str, RequestView]] = []
        self.running: set[RequestView] = set()

    def take_out(self, request: RequestView) -> None:
        place = bisect_left(self.waiting, (request.arrival_s, request.id))
        if place < len(self.waiting) and self.waiting[place][-1] is request:
            del self.waiting[place]

    def head(self) -> RequestView | None:
        while self.waiting and self.waiting[0][-1].state != "waiting":
            del self.waiting[0]  # it was rejected
        return self.waiting[0][-1] if self.waiting else None
