"""Whose blocks are taken when they run out: the choices of `policy.victim`.

Each gives the place in `running` (in order of admission). On a tie the last admitted goes, as it would by default; only
`lowest_priority` is vLLM's rule to the letter (0.32): the largest (priority, arrival), on a tie the first in the list.
"""

from collections.abc import Callable, Sequence

from twin.core.errors import PolicyError
from twin.core.request import Request


def _last(running: Sequence[Request]) -> int:
    return len(running) - 1


def _longest(running: Sequence[Request]) -> int:
    return max(range(len(running)), key=lambda place: (running[place].computed, place))


def _least_computed(running: Sequence[Request]) -> int:
    return min(range(len(running)), key=lambda place: (running[place].computed, -place))


def _most_remaining(running: Sequence[Request]) -> int:
    def remaining(place: int) -> tuple[float, int]:
        request = running[place]
        if request.predicted_output is None:
            raise PolicyError("policy.victim=most_remaining needs a predictor, and the run has none")
        return request.predicted_output - request.generated, place

    return max(range(len(running)), key=remaining)


def _lowest_priority(running: Sequence[Request]) -> int:
    return max(range(len(running)), key=lambda place: (running[place].priority, running[place].arrival_s, -place))


CHOOSE: dict[str, Callable[[Sequence[Request]], int]] = {
    "last": _last,
    "longest": _longest,
    "least_computed": _least_computed,
    "most_remaining": _most_remaining,
    "lowest_priority": _lowest_priority,
}
