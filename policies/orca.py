"""Iteration-level scheduling with one contiguous reservation a request: Orca, before PagedAttention."""

from math import ceil
from typing import Literal

from twin.policy import ADMIT, LATER, Policy, RequestView


class Orca(Policy):
    """Iteration-level scheduling: whoever ends leaves after that step, and the next in line joins in the next one.

    Source: Orca (Yu et al., OSDI 2022), in the three forms in which the PagedAttention paper (Kwon et al., SOSP 2023,
    section 6.1) has it as a baseline. Running requests go first, in order of admission; then the heads of the queue, with
    whole prompts (one longer than `scheduler.max_num_batched_tokens` comes in chunks, and until it is complete nobody
    else is admitted). A request has its memory set aside in one piece at admission, so nobody is ever preempted; one
    that outgrows a reservation made on too small a prediction ends the run.

    Parameters:
        reserve: tokens that are set aside.
            max: `model.max_model_len`; it needs to know nothing.
            pow2: the prompt and the next power of two of the predicted output (25 tokens: 32).
            oracle: the prompt and the predicted output, less the last token, whose KV is never written.
        buddy: round what is set aside up to a power of two (at most `model.max_model_len`), as the buddy allocator does
            that the PagedAttention paper takes for Orca's.
    """

    allocator = "contiguous"

    def __init__(self, reserve: Literal["max", "pow2", "oracle"] = "max", buddy: bool = False) -> None:
        wanted = {"max": None, "pow2": power_of_two, "oracle": exact}[reserve]
        self.reserve = rounded_up(wanted) if buddy and wanted else wanted
        self.needs_prediction = reserve != "max"
        self.plan_number = 0  # of the plan in which it was asked last
        self.budget = 0  # tokens of that plan that are left for whole prompts
        self.last_admitted: RequestView | None = None

    def admit(self, request, view):
        whole_budget = view.limits.max_num_batched_tokens
        if view.plan_number != self.plan_number:
            self.plan_number = view.plan_number
            self.budget = 0 if self.has_prompt_under_way() else whole_budget - view.num_running
        fits = request.pending <= self.budget or (request.pending > whole_budget and self.budget > 0)
        self.budget -= request.pending
        return ADMIT if fits else LATER

    def on_admit(self, request, view):
        self.last_admitted = request

    def has_prompt_under_way(self):
        last = self.last_admitted
        return last is not None and last.state == "running" and last.pending > 1


def power_of_two(request, view):
    return request.prompt_tokens + next_power_of_two(ceil(request.predicted_output))


def exact(request, view):
    return request.prompt_tokens + ceil(request.predicted_output) - 1


def rounded_up(wanted):
    return lambda request, view: next_power_of_two(wanted(request, view))


def next_power_of_two(tokens):
    return 1 << (tokens - 1).bit_length()
