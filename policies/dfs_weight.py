"""Depth-first walk of the prefix tree: requests that share a prefix run together."""

from collections import Counter, OrderedDict
from typing import Literal

from twin.policy import Policy, RequestView


class DfsWeight(Policy):
    """Waiting requests in the order of a depth-first walk of the tree of their prefixes, the busier branch first.

    Source: SGLang's RadixAttention (Zheng et al., NeurIPS 2024, section 3 and theorem 3.1: of all orders in a batch, a
    depth-first walk of the prefix tree hits most), `--schedule-policy dfs-weight`. Each waiting request hangs at the node
    where its prefix ends; of a node's branches the one with most waiting requests in it is walked first, on a tie the one
    of which somebody came first; those that hang at the node itself follow, in order of arrival (preempted ones in front).
    So those who share a prefix run together, and it is used by all of them before another one takes its place in the cache.

    It decides on the order. The walk is done anew at most once a plan, after an arrival, admission, preemption or end, over
    those who wait then: where few come in at a time a branch may give way to another that has become busier. Above
    `max_queue` waiting requests it is first come, first served (SGLang has no such bound here). It needs a prefix cache
    (`cache.enable_prefix_caching`); without one it is first come, first served.

    Parameters:
        tree: which prefix of a request counts.
            cached: what of it is in the cache, as in SGLang: requests with nothing cached come last, in order of arrival.
            prompts: its whole prompt, whether cached or not: those who will share stand together from the start.
        max_queue: requests waiting up to which the walk is done.
    """

    def __init__(self, tree: Literal["cached", "prompts"] = "cached", max_queue: int = 128) -> None:
        if max_queue < 0:
            raise ValueError(f"max_queue must be 0 or more, not {max_queue}")
        self.tree, self.max_queue = tree, max_queue
        self.line: OrderedDict[RequestView, None] = OrderedDict()  # who waits
        self.walked: list[RequestView] = []  # the first last
        self.walked_in = -1  # the plan for which the tree was walked
        self.changed = False  # since then somebody came, went in or left

    def on_wait(self, request, view):
        self.line[request] = None
        if request.preemptions:
            self.line.move_to_end(request, last=False)
        self.changed = True

    def on_admit(self, request, view):
        self.leave(request)

    def on_finish(self, request, view):
        self.leave(request)

    def leave(self, request):
        self.line.pop(request, None)
        self.changed = True

    def pick(self, view):
        if view.num_waiting <= self.max_queue and view.limits.enable_prefix_caching:
            if self.changed and view.plan_number != self.walked_in:
                self.walk(view)
            while self.walked:
                if self.walked[-1].state == "waiting":
                    return self.walked[-1]
                self.walked.pop()
        while self.line:
            first = next(iter(self.line))
            if first.state == "waiting":
                return first
            del self.line[first]  # rejected: nobody tells
        return None

    def walk(self, view):
        self.walked_in, self.changed = view.plan_number, False
        waiting = [request for request in self.line if request.state == "waiting"]
        self.walked = depth_first([(request, self.prefix(request, view)) for request in waiting])[::-1]

    def prefix(self, request, view):
        """The nodes from the root to where the request hangs: chained keys, equal where all before is equal."""
        keys = request.prefix_keys
        return keys if self.tree == "prompts" else keys[: request.cached_tokens // view.limits.block_size]


def depth_first(prefixes):
    """The requests of (request, prefix) pairs in the order of the walk.

    A request's place is the list of its choices at each fork, (minus the branch's weight, when the branch was first seen),
    and for its own node the last choice of all: to sort these lists is to walk the tree. Where all go the same way there is
    no choice, and a branch with one request in it needs no further ones.
    """
    weights: Counter[object] = Counter(key for _, prefix in prefixes for key in prefix)
    seen: dict[object, int] = {}
    places = []
    for index, (_, prefix) in enumerate(prefixes):
        choices, before = [], 0
        for key in prefix:
            weight = weights[key]
            if weight != before:
                choices.append((-weight, seen.setdefault(key, index)))
                before = weight
            if weight == 1:
                break
        places.append(([*choices, (0, 0)], index))
    return [prefixes[index][0] for _, index in sorted(places)]
