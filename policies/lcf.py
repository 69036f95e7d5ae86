"""Least counter first: who has been served least since the beginning goes first, however long it was away."""

from heapq import heappop, heappush, heapreplace
from itertools import count

from twin.policy import Policy, RequestView

EVER = 1 << 60  # steps


class Lcf(Policy):
    """The waiting user who has been served least since the beginning goes first, by its earliest request.

    Source: a baseline of Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024: the virtual token counter
    (`vtc`) without the lift at arrivals. A user who was idle, or is new, has all the service that the others had meanwhile
    as credit, and may lock them out until it has caught up: what the lift is for.

    A user's counter grows by the prompt at an admission (not again after a preemption) and with each token that comes out.
    Equal counters: the earlier request first. It decides the order alone, and needs to know the users.

    Parameters:
        prompt_weight: cost of a prompt token.
        output_weight: cost of an output token.
    """

    def __init__(self, prompt_weight: float = 1.0, output_weight: float = 2.0) -> None:
        for name, value in (("prompt_weight", prompt_weight), ("output_weight", output_weight)):
            if value and not 1e-6 <= value <= 1e6:  # beyond, counters are no numbers any more
                raise ValueError(f"{name} must be 0 or more, and if more 1e-6 to 1e6, not {value}")
        self.prompt_weight, self.output_weight = prompt_weight, output_weight
        self.accounts: dict[str | None, _Account] = {}
        self.line: list[tuple[float, float, str, int, _Account]] = []  # heap of users by counter; see `pick`
        self.number = count()
        self.by_user: dict[str | None, int] = {}  # tokens of the last step

    def pick(self, view):
        """Counters grow: what the heap says is right or too little, and is mended when it comes to the front."""
        line = self.line
        while line:
            *_, number, account = line[0]
            head = account.head()
            if head is None or number != account.entry:  # or it stands there a second time
                heappop(line)
            elif line[0][:3] == (self.counter(account), head.arrival_s, head.id):
                return head
            else:
                heapreplace(line, self.new_entry(account, head))
        return None

    def new_entry(self, account, head):
        account.entry = next(self.number)
        return self.counter(account), head.arrival_s, head.id, account.entry, account

    def counter(self, account):
        return self.prompt_weight * account.prompts + self.output_weight * account.outputs

    def steady_steps(self, view):
        """Until the counter of the first in line has grown to the second smallest."""
        first = self.pick(view)
        if first is None or len(self.line) == 1 or view.num_running >= view.limits.max_num_seqs:
            return EVER
        account = self.accounts[first.user]
        growth = self.output_weight * max(len(account.running), self.by_user.get(first.user, 0))
        slack = min(entry[0] for entry in self.line[1:3]) - self.counter(account)
        return int(slack / growth) if growth else EVER

    def on_wait(self, request, view):
        account = self.accounts.setdefault(request.user, _Account())
        heappush(account.waiting, (request.arrival_s, request.id, request))
        heappush(self.line, self.new_entry(account, account.head()))

    def on_admit(self, request, view):
        account = self.accounts[request.user]
        account.head()  # it is that no longer
        account.running.add(request)
        if not request.preemptions:
            account.prompts += request.prompt_tokens

    def on_step(self, view, batch, k):
        self.by_user = batch.by_user
        for user, tokens in batch.by_user.items():
            self.accounts[user].outputs += tokens * k

    def on_preempt(self, request, mode, view):
        self.accounts[request.user].running.discard(request)

    def on_finish(self, request, view):
        self.accounts[request.user].running.discard(request)


class _Account:
    """A user: who waits, who runs, and the tokens served."""

    def __init__(self) -> None:
        self.prompts = self.outputs = 0
        self.entry = -1  # the number of its valid entry in the line
        self.waiting: list[tuple[float, str, RequestView]] = []  # heap
        self.running: set[RequestView] = set()

    def head(self) -> RequestView | None:
        while self.waiting and self.waiting[0][-1].state != "waiting":
            heappop(self.waiting)
        return self.waiting[0][-1] if self.waiting else None
