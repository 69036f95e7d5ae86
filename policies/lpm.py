"""Longest prefix match first: who finds most of its prompt in the cache."""

from collections import OrderedDict

from twin.policy import Policy, RequestView


class Lpm(Policy):
    """The waiting request that finds most of its tokens cached goes first: what is in the cache is used before it is lost.

    Source: SGLang's RadixAttention (Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs",
    NeurIPS 2024), `--schedule-policy lpm`. It decides on the order, largest `cached_tokens` first, then order of arrival
    (preempted ones in front), with these rules of SGLang's:

    - above `max_queue` waiting requests it is first come, first served (matching all of them would cost too much);
    - in-batch rule: of waiting requests that share a prefix of `defer_tokens` tokens which is not cached, the first goes
      in its turn and the others after everybody else: they come in when the first has brought the prefix into the cache;
    - ageing (a proposal there, pull request 31723): a request that was passed over in p plans that took somebody in counts
      with age_tokens * p tokens more. Without it a request with a cold prompt waits as long as hot ones keep coming.

    Matches are looked up at most once a plan, after an arrival, admission, preemption or end, not after each decode step;
    SGLang, too, looks no further than its full batch until somebody leaves it. It needs a prefix cache
    (`cache.enable_prefix_caching`); without one it is first come, first served.

    Parameters:
        max_queue: requests waiting up to which the order is by match.
        defer_tokens: length in tokens, in whole blocks, at least one, of a shared prefix for the in-batch rule, which is
            for requests that have no more than that cached. 0: the rule is off.
        age_tokens: tokens that a plan in which it was passed over adds to a request's match. 0: no ageing.
    """

    def __init__(self, max_queue: int = 128, defer_tokens: int = 32, age_tokens: int = 0) -> None:
        for name, value in (("max_queue", max_queue), ("defer_tokens", defer_tokens), ("age_tokens", age_tokens)):
            if value < 0:
                raise ValueError(f"{name} must be 0 or more, not {value}")
        self.max_queue, self.defer_tokens, self.age_tokens = max_queue, defer_tokens, age_tokens
        self.line: OrderedDict[RequestView, int] = OrderedDict()  # who waits -> rounds before it came
        self.rounds = 0  # plans that took somebody in
        self.last_round = -1  # number of the last of them
        self.ranked: list[RequestView] = []  # the best last
        self.ranked_in = -1  # the plan for which they were ranked
        self.changed = False  # since then somebody came, went in or left

    def on_wait(self, request, view):
        self.line[request] = self.rounds
        if request.preemptions:
            self.line.move_to_end(request, last=False)
        self.changed = True

    def on_admit(self, request, view):
        self.leave(request)
        if view.plan_number != self.last_round:
            self.last_round = view.plan_number
            self.rounds += 1

    def on_finish(self, request, view):
        self.leave(request)

    def leave(self, request):
        self.line.pop(request, None)
        self.changed = True

    def pick(self, view):
        if view.num_waiting <= self.max_queue and view.limits.enable_prefix_caching:
            if self.changed and view.plan_number != self.ranked_in:
                self.rank(view)
            while self.ranked:
                if self.ranked[-1].state == "waiting":
                    return self.ranked[-1]
                self.ranked.pop()
        while self.line:
            first = next(iter(self.line))
            if first.state == "waiting":
                return first
            del self.line[first]  # rejected: nobody tells
        return None

    def rank(self, view):
        self.ranked_in, self.changed = view.plan_number, False
        for request in [request for request in self.line if request.state != "waiting"]:
            del self.line[request]
        key_at = self.key_at(view.limits.block_size)
        leaders = set()  # keys of uncached prefixes of which somebody stands before
        keyed: list[tuple[int, int, RequestView]] = []
        deferred: list[RequestView] = []
        for request, rounds_before in self.line.items():
            match = request.cached_tokens
            if self.defer_tokens and match <= self.defer_tokens:
                keys = request.prefix_keys[key_at : key_at + 1]
                if keys and keys[0] in leaders:
                    deferred.append(request)
                    continue
                leaders.update(keys)
            keyed.append((-match - self.age_tokens * (self.rounds - rounds_before), len(keyed), request))
        keyed.sort()
        deferred.reverse()
        self.ranked = deferred + [request for _, _, request in reversed(keyed)]

    def key_at(self, block_size):
        """Place of the key that says whether so many tokens agree: keys are chained."""
        return max(1, -(-self.defer_tokens // block_size)) - 1
