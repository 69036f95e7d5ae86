"""Admission: the peak of future memory, from what past outputs were like."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from hashlib import blake2b
from math import ceil, floor

from twin.policy import ADMIT, LATER, Policy, RequestView

EVER = 1 << 60  # steps

Course = tuple[int, int, int, RequestView]  # the step in which it ends, its tokens before step 0, a number, who


class PastFuture(Policy):
    """The head comes in only if the most tokens that those who run, and it, will hold at one time stay below the pool.

    Source: the scheduler of LightLLM (Gong et al., "Past-Future Scheduler for LLM Serving under SLA Guarantees", ASPLOS
    2025). Who runs holds `has` tokens and has `left` to yield; each step adds one to everybody, and whoever has none left
    gives all back. So memory is largest at one of the ends. In order of `left`, longest first, when the i-th ends the first
    i are still there:

        peak = max over i of  left_i * i + sum of has_j, j <= i          admitted if peak < (1 - reserved) * pool

    With P prompt tokens and O outputs, of which g have come: has = P + g, left = O - g - 1 (the last one's KV is never
    written). From its admission on a request is taken to yield a token in each step. Blocks that requests share are counted
    for each; what the last block of each wastes is what `reserved` is for. When nothing runs the head comes in. It decides
    on admission alone: `policy.admission=past_future`.

    O is the prediction where the run has a predictor. Else it is drawn from the outputs that finished last; who outlives
    its draw gets another, of those that were longer; who has outlived them all is taken to go on for a tenth. Before anybody
    has finished it is `max_tokens`, or all that `model.max_model_len` allows: a cautious start. It is never more than these
    two. A request draws by a quantile of its own: the same seed gives the same decisions whoever is asked when.

    Parameters:
        reserved: share of the pool, 0 to less than 1, that is kept back for errors of the estimate (the paper: 3 to 10 %).
        window: finished outputs that are remembered.
        seed: of the draws.
    """

    def __init__(self, reserved: float = 0.05, window: int = 1000, seed: int = 0) -> None:
        if not 0 <= reserved < 1:
            raise ValueError(f"reserved must be a share of the pool, 0 <= reserved < 1, not {reserved}")
        if window < 1:
            raise ValueError(f"window must be 1 or more finished requests, not {window}")
        self.reserved, self.window, self.seed = reserved, window, seed
        self.recent: deque[int] = deque()  # outputs, in order of finishing
        self.lengths: list[int] = []  # the same, sorted
        self.quantiles: dict[RequestView, float] = {}
        self.steps = 0  # up to now
        self.courses: list[Course] = []  # of those who run, sorted
        self.course_of: dict[RequestView, Course] = {}
        self.overdue: dict[RequestView, int] = {}  # who should have ended -> its tokens before step 0
        self.numbers = 0
        self.refused = (-1, 0.0)  # in which plan, at which peak

    # --- admission

    def admit(self, request, view):
        if not view.num_running:
            return ADMIT
        self.follow(view)
        courses = self.courses.copy()
        insort(courses, self.course(request, view))
        here = len(courses) + len(self.overdue)
        now = here * self.steps + sum([course[1] for course in courses]) + sum(self.overdue.values())
        peak = max(now, peak_of_future(courses))
        if peak < self.capacity(view.limits):
            return ADMIT
        self.refused = (view.plan_number, peak)
        return LATER

    def capacity(self, limits):
        return (1 - self.reserved) * limits.num_blocks * limits.block_size

    def steady_steps(self, view):
        """Who is refused at a peak stays refused until that has fallen below the capacity, by one a step at most.

        For those who run keep to their course, or come to be taken for longer, and the head, coming in a step later, is a
        token shorter at any time.
        """
        plan_number, peak = self.refused
        return floor(peak - self.capacity(view.limits)) + 1 if view.plan_number == plan_number else EVER

    # --- who runs

    def course(self, request, view):
        """Of a request that would come in now."""
        generated, prompt = request.generated, request.prompt_tokens
        left = max(0, self.output(request, prompt, generated, view.limits) - generated - 1)
        self.numbers += 1
        return self.steps + left, prompt + generated - self.steps, self.numbers, request

    def follow(self, view):
        """Who has outlived its course gets a longer one, or is overdue."""
        for course in self.courses[: bisect_left(self.courses, (self.steps,))]:
            self.courses.remove(course)
            end, base, number, request = course
            prompt, longer = request.prompt_tokens, True
            while end < self.steps and longer:
                output = base + end + 1 - prompt
                longer = max(0, self.output(request, prompt, output, view.limits) - output)
                end += longer
            if longer:
                self.course_of[request] = course = end, base, number, request
                insort(self.courses, course)
            else:
                self.overdue[request] = base
                del self.course_of[request]

    def on_step(self, view, batch, k):
        self.steps += k

    def on_admit(self, request, view):
        self.course_of[request] = course = self.course(request, view)
        insort(self.courses, course)

    def on_preempt(self, request, mode, view):
        self.leave(request)

    def on_finish(self, request, view):
        self.follow(view)  # by the lengths known until now
        self.leave(request)
        self.quantiles.pop(request, None)
        if request.state == "finished":
            self.remember(request.generated)

    def leave(self, request):
        self.overdue.pop(request, None)
        course = self.course_of.pop(request, None)
        if course is not None:
            del self.courses[bisect_left(self.courses, course)]

    # --- lengths

    def output(self, request, prompt, generated, limits):
        """Tokens that the request is taken to yield in all, when so many have come."""
        most = limits.max_model_len - prompt
        if request.max_tokens is not None:
            most = min(most, request.max_tokens)
        if request.predicted_output is not None:
            return min(most, ceil(request.predicted_output))
        if not self.lengths:
            return most
        shorter = bisect_right(self.lengths, generated)
        longer = len(self.lengths) - shorter
        if not longer:
            return min(most, generated + 1 + generated // 10)
        return min(most, self.lengths[shorter + int(self.quantile(request) * longer)])

    def quantile(self, request):
        """The request's own, 0 <= quantile < 1."""
        if request not in self.quantiles:
            digest = blake2b(f"{self.seed} past_future {request.id}".encode(), digest_size=6).digest()
            self.quantiles[request] = int.from_bytes(digest) / 2**48
        return self.quantiles[request]

    def remember(self, output):
        if len(self.recent) == self.window:
            del self.lengths[bisect_right(self.lengths, self.recent.popleft()) - 1]
        self.recent.append(output)
        insort(self.lengths, output)


def peak_of_future(courses):
    """The most tokens held at the end of anybody: (the step in which it ends, tokens before step 0, ...), sorted."""
    peak = total = place = 0
    for course in reversed(courses):
        place += 1
        total += course[1]
        at_its_end = course[0] * place + total
        if at_its_end > peak:
            peak = at_its_end
    return peak
