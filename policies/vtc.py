"""The virtual token counter: the user who has been served least goes first."""

from collections.abc import Mapping
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import ceil, sqrt
from typing import Literal

from twin.policy import Policy, RequestView, user_weights

PROFILED = (2.1, 1.0, 0.04, 0.032, 11.46)  # prices of p, q, p·q, q² and 1; in units of a tenth of a millisecond
ALIVE = ("running", "waiting", "swapped")
EVER = 1 << 60  # steps


class Vtc(Policy):
    """The waiting user with the smallest counter goes first, by its earliest request; the counter grows with its service.

    Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024: the counter (algorithm 2) and its variants
    with weights, length prediction and a profiled cost. As long as two users of equal weight have somebody waiting, the
    services they get differ by at most 2 max(prompt_weight · longest prompt, output_weight · tokens in the pool).

    A counter grows by cost / weight of the user: by the prompt at an admission, and with each token that comes out. At an
    arrival from a user of whom nobody waits it is lifted to the smallest counter of those who wait, and if nobody waits, to
    that of the user who was the last to leave the queue: being idle gathers no credit. A prompt that is computed again
    after a preemption is not charged again: its user asked for it once, and it is the server's pool that was too small.
    Equal counters: the earlier request first. It decides the order alone, and needs to know the users.

    Parameters:
        prompt_weight: cost of a prompt token.
        output_weight: cost of an output token.
        weights: shares of users as user:weight, comma between them ("alice:2,bob:0.5"); who is not named has 1.
        predict: the predicted output is charged at the admission, tokens beyond it as they come, and what did not come is
            given back at the end; it needs a predictor.
        cost: of a request with p prompt tokens of which q tokens have come out.
            linear: prompt_weight p + output_weight q.
            profiled: 2.1 p + q + 0.04 p q + 0.032 q² + 11.46, Llama-2-7B on an A10G; the two weights play no part.
    """

    def __init__(
        self,
        prompt_weight: float = 1.0,
        output_weight: float = 2.0,
        weights: str = "",
        predict: bool = False,
        cost: Literal["linear", "profiled"] = "linear",
    ) -> None:
        for name, value in (("prompt_weight", prompt_weight), ("output_weight", output_weight)):
            if value and not 1e-6 <= value <= 1e6:  # beyond, counters are no numbers any more
                raise ValueError(f"{name} must be 0 or more, and if more 1e-6 to 1e6, not {value}")
        self.prices = PROFILED if cost == "profiled" else (prompt_weight, output_weight, 0.0, 0.0, 0.0)
        self.weights = user_weights(weights)
        self.needs_prediction = predict
        self.by_request = predict or cost == "profiled"  # what a token costs depends on whose it is
        self.accounts: dict[str | None, _Account] = {}
        self.line: list[tuple[float, float, str, int, _Account]] = []  # heap of users by counter; see `pick`
        self.number = count()
        self.last_to_leave: _Account | None = None  # the queue
        self.by_user: Mapping[str | None, int] = {}  # tokens of the last step

    # --- the queue

    def pick(self, view):
        """Counters grow: what the heap says is right or too little, and is mended when it comes to the front."""
        line = self.line
        while line:
            *_, number, account = line[0]
            head = account.head()
            if head is None or number != account.entry:  # or it stands there a second time
                heappop(line)
            elif line[0][:3] == (account.counter, head.arrival_s, head.id):
                return head
            else:
                heapreplace(line, self.new_entry(account, head))
        return None

    def new_entry(self, account, head):
        account.entry = next(self.number)
        return account.counter, head.arrival_s, head.id, account.entry, account

    def stand_in_line(self, account):
        if (head := account.head()) is not None:
            heappush(self.line, self.new_entry(account, head))

    def steady_steps(self, view):
        """Until the counter of the first in line has grown to the second smallest."""
        first = self.pick(view)
        if first is None or len(self.line) == 1 or view.num_running >= view.limits.max_num_seqs:
            return EVER
        yields = self.by_user.get(first.user, 0)
        return self.accounts[first.user].steps_to(min(entry[0] for entry in self.line[1:3]), yields)

    def on_arrival(self, request, view):
        account = self.accounts.get(request.user)
        if account is None:
            weight = self.weights.get(request.user, 1.0)
            account = self.accounts[request.user] = _Account(self.prices, weight, self.needs_prediction)
        if account.head() is None:
            first = self.pick(view)
            least = self.last_to_leave if first is None else self.accounts[first.user]
            account.lifted += max(0.0, least.counter - account.counter) if least else 0.0

    def on_wait(self, request, view):
        account = self.accounts[request.user]
        account.queue(request)
        self.stand_in_line(account)

    # --- service

    def on_admit(self, request, view):
        account = self.accounts[request.user]
        if account.leave_queue(request):
            self.last_to_leave = account
        if not request.preemptions:
            account.requests += 1
            account.prompts += request.prompt_tokens
        account.come_in(request)

    def on_step(self, view, batch, k):
        self.by_user = batch.by_user
        accounts = self.accounts
        if not self.by_request:
            for user, tokens in batch.by_user.items():
                accounts[user].outputs += tokens * k
            return
        for request in batch.requests:
            if request.state in ALIVE:
                accounts[request.user].receive(request, k)

    def on_preempt(self, request, mode, view):
        self.accounts[request.user].running.discard(request)

    def on_finish(self, request, view):
        account = self.accounts[request.user]
        if account.leave_queue(request):
            self.last_to_leave = account
        if account.end(request):
            self.stand_in_line(account)


class _Account:
    """A user: who waits, and what it has been served, in integers: k steps at once leave what k single ones leave."""

    def __init__(self, prices: tuple[float, ...], weight: float, predicts: bool) -> None:
        self.prices, self.weight, self.predicts = prices, weight, predicts
        self.requests = self.prompts = self.outputs = self.products = self.squares = 0  # sums of 1, p, q, p·q, q²
        self.lifted = 0.0
        self.entry = -1  # the number of its valid entry in the line
        self.waiting: list[tuple[float, str, RequestView]] = []  # heap
        self.queued: set[RequestView] = set()
        self.running: set[RequestView] = set()
        self.tokens: dict[RequestView, int] = {}  # of those that have come in
        self.predicted: dict[RequestView, int] = {}

    # --- the queue

    def queue(self, request: RequestView) -> None:
        self.queued.add(request)
        heappush(self.waiting, (request.arrival_s, request.id, request))

    def head(self) -> RequestView | None:
        while self.waiting:
            head = self.waiting[0][-1]
            if head.state == "waiting":
                return head
            heappop(self.waiting)
            self.queued.discard(head)
        return None

    def leave_queue(self, request: RequestView) -> bool:
        waited = request in self.queued
        self.queued.discard(request)
        self.head()
        return waited

    # --- the counter

    @property
    def counter(self) -> float:
        prompt, output, product, square, request = self.prices
        cost = prompt * self.prompts + output * self.outputs
        if product:
            cost += product * self.products + square * self.squares + request * self.requests
        return self.lifted + cost / self.weight

    def charge(self, request: RequestView, before: int, after: int) -> None:
        """It has `after` tokens now."""
        more = after - before
        self.outputs += more
        self.products += more * request.prompt_tokens
        self.squares += after * after - before * before

    def steps_to(self, least: float, yields: int) -> int:
        """Decode steps, at least, until the counter has grown to `least`: a k + b k² is the most that k of them cost."""
        count = max(len(self.running), yields)
        _, output, product, square, _ = self.prices
        a, b = output * count, square * count
        if product:
            if len(self.running) < count:
                return 0
            a += sum(product * request.prompt_tokens + 2 * square * self.tokens[request] for request in self.running)
        slack = (least - self.counter) * self.weight
        if not a:
            return EVER
        return int((sqrt(a * a + 4 * b * slack) - a) / (2 * b) if b else slack / a)

    # --- whose tokens

    def come_in(self, request: RequestView) -> None:
        self.running.add(request)
        if request not in self.tokens:
            predicted = ceil(request.predicted_output) if self.predicts else 0
            self.tokens[request], self.predicted[request] = 0, predicted
            self.charge(request, 0, predicted)

    def receive(self, request: RequestView, k: int) -> None:
        if request not in self.tokens:
            self.come_in(request)  # a further sample of a prompt that has been charged
        tokens, predicted = self.tokens[request], self.predicted[request]
        self.tokens[request] = tokens + k
        if tokens + k > predicted:
            self.charge(request, max(tokens, predicted), tokens + k)

    def end(self, request: RequestView) -> bool:
        """It is given back what was predicted and did not come."""
        self.running.discard(request)
        tokens, predicted = self.tokens.pop(request, 0), self.predicted.pop(request, 0)
        if tokens < predicted:
            self.charge(request, predicted, tokens)
        return tokens < predicted
