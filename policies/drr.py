"""Deficit round robin: users take turns, each of which is worth a quantum of tokens."""

from heapq import heappop, heappush, heapreplace
from itertools import count
from math import ceil

from twin.policy import Policy, RequestView

EVER = 1 << 60  # steps


class Drr(Policy):
    """Users of whom somebody waits take turns; a turn adds a quantum to the user's balance, which its requests spend.

    Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995; for requests of which
    the length is unknown as in the appendix of Sheng et al., OSDI 2024: what cannot be known is paid afterwards.

    In its turn a user's requests come in, the earliest first, as long as the balance covers the prompt, which is then paid;
    output tokens are paid as they come, and may leave a debt. Then it is the next one's turn. A user of whom nobody waits
    has no turns: it keeps nothing, and of its debt every round pays off a quantum. Who joins comes last in the round. A
    request that comes back after a preemption has paid for its prompt. Rounds in which nobody could come in are passed at
    once. It decides the order alone, and needs to know the users.

    Parameters:
        quantum_tokens: tokens (by cost) that a turn is worth; small: fairer, large: users in longer rows.
        prompt_weight: cost of a prompt token.
        output_weight: cost of an output token.
    """

    def __init__(self, quantum_tokens: int = 1000, prompt_weight: float = 1.0, output_weight: float = 2.0) -> None:
        if quantum_tokens < 1:
            raise ValueError(f"quantum_tokens must be 1 or more tokens, not {quantum_tokens}")
        for name, value in (("prompt_weight", prompt_weight), ("output_weight", output_weight)):
            if value and not 1e-6 <= value <= 1e6:  # beyond, counters are no numbers any more
                raise ValueError(f"{name} must be 0 or more, and if more 1e-6 to 1e6, not {value}")
        self.quantum, self.prompt_weight, self.output_weight = quantum_tokens, prompt_weight, output_weight
        self.users: dict[str | None, _User] = {}
        self.line: list[tuple[int, int, int, _User]] = []  # heap by (round, place) of the turn in which each can come in
        self.number = count()
        self.places = count(1)
        self.round, self.place = 1, 0  # whose turn it is
        self.by_user: dict[str | None, int] = {}  # tokens of the last step

    # --- turns

    def pick(self, view):
        """Balances fall between turns: what the heap says is right or too early, and is mended at the front."""
        line = self.line
        while line:
            *_, number, user = line[0]
            if number != user.entry or user.head() is None:  # or it stands there a second time
                heappop(line)
            elif line[0][0] == self.round_of(user):
                return user.head()
            else:
                heapreplace(line, self.new_entry(user))
        return None

    def new_entry(self, user):
        user.entry = next(self.number)
        return self.round_of(user), user.place, user.entry, user

    def round_of(self, user):
        """The round in which the user's head can come in."""
        lacking = self.price(user.head()) - self.balance(user)
        next_turn = self.round if user.place >= self.place else self.round + 1
        return max(next_turn, user.round + max(0, ceil(lacking / self.quantum)))

    def balance(self, user):
        """After the turn in user.round."""
        return user.income - self.prompt_weight * user.prompts - self.output_weight * user.outputs

    def price(self, request):
        return 0 if request.preemptions else self.prompt_weight * request.prompt_tokens

    def steady_steps(self, view):
        """As long as the balance of the first in line covers its prompt; the others only come later."""
        head = self.pick(view)
        if head is None or len(self.line) == 1 or view.num_running >= view.limits.max_num_seqs:
            return EVER
        user = self.users[head.user]
        growth = self.output_weight * max(len(user.running), self.by_user.get(head.user, 0))
        spare = self.balance(user) + self.quantum * (self.line[0][0] - user.round) - self.price(head)
        return int(spare / growth) if growth else EVER

    # --- what happens

    def on_wait(self, request, view):
        user = self.users.setdefault(request.user, _User())
        if user.head() is None:
            self.join(user)
        user.queued.add(request)
        heappush(user.waiting, (request.arrival_s, request.id, request))
        heappush(self.line, self.new_entry(user))

    def join(self, user):
        """It keeps nothing, and the rounds that went by without it have paid of its debt what they could."""
        past = self.round - 1
        balance = self.balance(user)
        user.income += min(0, balance + self.quantum * max(0, past - user.round)) - balance
        user.round = max(past, user.round)
        user.place = next(self.places)

    def on_admit(self, request, view):
        user = self.users[request.user]
        user.running.add(request)
        if request in user.queued:
            self.take_turn(user, self.line[0][0])
            user.queued.remove(request)
        if not request.preemptions:
            user.prompts += request.prompt_tokens

    def take_turn(self, user, turn):
        user.income += self.quantum * (turn - user.round)
        user.round = self.round = turn
        self.place = user.place

    def on_step(self, view, batch, k):
        self.by_user = batch.by_user
        for user, tokens in batch.by_user.items():
            self.users[user].outputs += tokens * k

    def on_preempt(self, request, mode, view):
        self.users[request.user].running.discard(request)

    def on_finish(self, request, view):
        user = self.users[request.user]
        user.running.discard(request)
        if request in user.queued:
            user.queued.remove(request)
            if user.head() is not None:
                heappush(self.line, self.new_entry(user))


class _User:
    """Who waits, who runs, and what was earned and spent."""

    def __init__(self) -> None:
        self.income = 0.0
        self.prompts = self.outputs = 0  # tokens to be paid for
        self.round = 0  # of the last turn of which the quantum is in the income
        self.place = 0  # in a round
        self.entry = -1  # the number of its valid entry in the line
        self.waiting: list[tuple[float, str, RequestView]] = []  # heap
        self.queued: set[RequestView] = set()
        self.running: set[RequestView] = set()

    def head(self) -> RequestView | None:
        while self.waiting and self.waiting[0][-1].state != "waiting":
            self.queued.discard(heappop(self.waiting)[-1])
        return self.waiting[0][-1] if self.waiting else None
