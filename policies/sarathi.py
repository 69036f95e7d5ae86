"""Stall-free batching: decodes first, prompts in chunks with what is left of the token budget."""

from twin.policy import Plan, Policy, RequestView


class Sarathi(Policy):
    """Every decode in every step, and prompts in chunks with what the token budget leaves: nobody who decodes stalls.

    Source: Sarathi-Serve (Agrawal et al., OSDI 2024, algorithm 3). In a step

    - each decoding request gets its token, in order of admission, taking blocks from the last admitted when they run
      out, by `policy.preemption_mode`;
    - then prompts under way get their next chunks, in the same order;
    - then, if nothing had to be preempted, swapped requests and the head of the queue come in while they fit.

    The budget, `scheduler.max_num_batched_tokens`, is the paper's chunk size: it bounds the time of a step. If more
    requests decode than it has tokens, the turn goes round: those left out are the first in the next step. Without that,
    and but for prompts which are overtaken by later ones, vLLM V1 (`fcfs`) does the same. It needs to know nothing.
    """

    def __init__(self) -> None:
        self.left_out: list[RequestView] = []  # decodes of the step before for which its budget did not suffice

    def schedule(self, view):
        plan = Plan(view)
        in_turn = view.running if self.left_out or not plan.take_decodes() else view.prefills
        decodes = self.in_turn([request for request in in_turn if request.pending == 1])
        prompts = [request for request in in_turn if request.pending > 1]
        for request in decodes + prompts:
            while not plan.take(request) and plan.budget and request.state == "running":
                plan.preempt(plan.victim())
        self.left_out = []
        if len(decodes) > view.limits.max_num_batched_tokens:
            given = plan.tokens
            self.left_out = [request for request in decodes if request.state == "running" and request not in given]
        newcomer = None if plan.preempted else first_in_line(view)
        while newcomer and plan.budget and plan.take(newcomer):
            newcomer = first_in_line(view)
        return plan

    def in_turn(self, decodes):
        """In order of admission, beginning with the first of those who were left out."""
        for request in self.left_out:
            if request in decodes:
                start = decodes.index(request)
                return decodes[start:] + decodes[:start]
        return decodes


def first_in_line(view):
    return view.swapped_head or view.head
