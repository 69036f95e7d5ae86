"""Prompts first and alone, then decodes: the step of vLLM V0."""

from twin.policy import Plan, Policy, RequestView


class PrefillFirst(Policy):
    """Prompts first and alone, then decodes, then swap-in: the default scheduler of vLLM V0 (0.4 to 0.6, 2024).

    Idea: a new request gets its first token as early as possible; whoever decodes stands still meanwhile (the stall that
    Sarathi-Serve, OSDI 2024, removes). A step is one of two:

    - prompts, as long as the head of the queue fits and nobody is swapped out: whole ones, or chunks where
      `scheduler.enable_chunked_prefill` is set, up to the token budget;
    - else one token for each running request in order of admission, taking blocks from the last admitted when they run
      out, by `policy.preemption_mode`; and, if nothing had to be preempted, the swapped ones come back while they fit.

    With chunked prefill V0 itself put decodes first and mixed chunks in: see `sarathi`.
    The watermark (V0: 1 % of the blocks) is `cache.watermark`. It needs to know nothing.

    Parameters:
        max_prefill_steps: so many prompt steps may follow one another while somebody decodes, then a step of decodes
            comes in between; 0 (V0) sets no bound, and decodes starve as long as prompts keep coming.
    """

    def __init__(self, max_prefill_steps: int = 0) -> None:
        if max_prefill_steps < 0:
            raise ValueError(f"max_prefill_steps must be 0 (no bound) or more steps, not {max_prefill_steps}")
        self.max_prefill_steps = max_prefill_steps
        self.prefill_steps = 0  # in a row, up to now
        self.begun: dict[RequestView, None] = {}  # prompts of which a chunk has been computed

    def schedule(self, view):
        plan = Plan(view)
        decodes_due = self.decodes_due(view)
        if not decodes_due and not view.num_swapped:
            self.prompts(plan, view)
        self.prefill_steps = 0 if plan.empty else self.prefill_steps + 1
        if plan.empty:
            self.decodes(plan, view, decodes_due)
        self.steady = not decodes_due  # after such a step it is the prompts' turn again, without any event
        return plan

    def decodes_due(self, view):
        if not 0 < self.max_prefill_steps <= self.prefill_steps:
            return False
        return any(request.pending == 1 for request in view.running)

    def prompts(self, plan, view):
        self.begun = {request: None for request in self.begun if request.state == "running" and request.pending > 1}
        for request in self.begun:
            plan.take(request)
        while plan.budget and (head := view.head) and plan.take(head):
            self.begun[head] = None

    def decodes(self, plan, view, decodes_only):
        in_turn = view.running if view.prefills or not plan.take_decodes() else ()
        for request in in_turn:
            if decodes_only and request.pending > 1:
                continue
            while not plan.take(request) and lacks_blocks(request, plan):
                plan.preempt(plan.victim())
        while plan.budget and not plan.preempted and (swapped := view.swapped_head) and plan.take(swapped):
            self.begun[swapped] = None


def lacks_blocks(request, plan):
    """Nothing else than blocks: budget, this plan's preemptions, all its tokens in flight (asynchronous scheduling)."""
    return plan.budget > 0 and request.state == "running" and request.pending > 0
