"""Admission: a share of what everybody may yet yield is kept free, a share that decays until somebody has to go."""

from bisect import bisect_left

from twin.policy import ADMIT, LATER, Policy, RequestView

EVER = 1 << 60  # steps
AT_MOST = 1 << 12  # steps that a refusal stands unasked


class ReserveRatio(Policy):
    """Room for a share of what those who run may yet yield is kept free; the share decays, and jumps when it was too small.

    Source: SGLang (Zheng et al., NeurIPS 2024; `new_token_ratio` of its scheduler, version 0.4 and later). The head comes in
    if its uncached tokens (in whole blocks; what it finds in the free list counts) and the rest of its own `max_tokens` are
    less than the free tokens, minus `ratio` times the sum of the rests of those who run. A rest is max_tokens - outputs so
    far, at most `clip_tokens`. Who came in in the same plan counts with its whole rest, and with the part of its prompt that
    has no blocks yet. When nothing runs the head comes in.

    The ratio begins at `initial` and falls in equal parts to `minimum_share` of it within `decay_steps` steps. When somebody
    has to be preempted ("retracted") it becomes (outputs of those who remain + `retract_steps` each) / (sum of their
    max_tokens + 1), at most 1, and falls from there. When a request comes to an idle system it is `initial` again.
    Who is preempted: the request with the fewest outputs, of those the longest prompt, of those the last admitted.

    As a part: `policy.admission=reserve_ratio`, and for the choice of whom to preempt `policy.victim=reserve_ratio`. It
    needs `max_tokens`; for a request without, it takes all that `model.max_model_len` allows.

    Parameters:
        initial: the ratio at the start, 0 to 1 (SGLang: 0.7 times `--schedule-conservativeness`).
        minimum_share: of `initial`, where the decay ends, 0 to 1.
        decay_steps: steps from the one to the other.
        clip_tokens: most tokens that a request's rest counts for.
        retract_steps: tokens a request that are added to the outputs in the estimate after a preemption.
    """

    def __init__(
        self,
        initial: float = 0.7,
        minimum_share: float = 0.14,
        decay_steps: int = 600,
        clip_tokens: int = 4096,
        retract_steps: int = 20,
    ) -> None:
        for name, share in (("initial", initial), ("minimum_share", minimum_share)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must be from 0 to 1, not {share}")
        for name, count in (("decay_steps", decay_steps), ("clip_tokens", clip_tokens)):
            if count < 1:
                raise ValueError(f"{name} must be 1 or more, not {count}")
        if retract_steps < 0:
            raise ValueError(f"retract_steps must be 0 or more, not {retract_steps}")
        self.initial, self.minimum = initial, initial * minimum_share
        self.decay = (initial - self.minimum) / decay_steps  # a step
        self.clip_tokens, self.retract_steps = clip_tokens, retract_steps
        self.steps = 0  # up to now
        self.start, self.steps_before = initial, 0  # the ratio some steps ago, and their number by then
        self.ends: dict[RequestView, int] = {}  # who runs -> the step in which it has yielded its max_tokens
        self.plan_number = -1  # of the plan that the next three are of
        self.rest = 0  # tokens that those who ran before it may yet yield
        self.newcomers = 0  # tokens that those who came in with it will need
        self.spare = 0  # free tokens that the head asked last would leave
        self.refused_in = -1  # the plan in which somebody was refused

    # --- admission

    def admit(self, request, view):
        if view.plan_number != self.plan_number:
            self.plan_number, self.newcomers = view.plan_number, 0
            last = self.steps + self.clip_tokens
            rest = sum([end if end < last else last for end in self.ends.values()]) - len(self.ends) * self.steps
            self.rest = max(0, rest)
        if not view.num_running:
            return ADMIT
        limits = view.limits
        rest = min(most(request, limits) - request.generated, self.clip_tokens)
        room = view.free_blocks - request.admission_blocks
        self.spare = room * limits.block_size - rest - self.newcomers
        if self.spare > self.rest * self.ratio():
            return ADMIT
        self.refused_in = view.plan_number
        return LATER

    def steady_steps(self, view):
        """The refused head may come in after so many steps, if all who run give back a token a step and take no block."""
        if view.plan_number != self.refused_in:
            return EVER
        decodes = len(self.ends)

        def may_come_in(ahead):
            return self.spare > max(0, self.rest - decodes * ahead) * self.ratio(ahead)

        return bisect_left(range(AT_MOST), True, 1, key=may_come_in)

    # --- who runs

    def on_admit(self, request, view):
        rest, limits = most(request, view.limits) - request.generated, view.limits
        self.ends[request] = self.steps + rest
        if view.plan_number == self.plan_number:
            known = request.prompt_tokens + request.generated
            self.newcomers += min(rest, self.clip_tokens) + max(0, known - request.blocks * limits.block_size)

    def victim(self, running, view):
        return min(enumerate(running), key=lambda entry: (entry[1].generated, -entry[1].prompt_tokens, -entry[0]))[1]

    def on_preempt(self, request, mode, view):
        self.ends.pop(request, None)
        running, limits = view.running, view.limits
        outputs = sum([request.generated + self.retract_steps for request in running])
        self.start = min(1.0, outputs / (sum([most(request, limits) for request in running]) + 1))
        self.steps_before = self.steps
        self.plan_number = -1

    def on_finish(self, request, view):
        self.ends.pop(request, None)

    # --- the ratio

    def ratio(self, ahead=0):
        """What it is, or will be after so many steps more."""
        return max(self.minimum, self.start - self.decay * (self.steps - self.steps_before + ahead))

    def on_step(self, view, batch, k):
        self.steps += k

    def on_arrival(self, request, view):
        if not (view.num_running or view.num_waiting or view.num_swapped):
            self.start, self.steps_before = self.initial, self.steps


def most(request, limits):
    """Tokens that a request may yield in all."""
    output = limits.max_model_len - request.prompt_tokens
    return output if request.max_tokens is None else min(output, request.max_tokens)
