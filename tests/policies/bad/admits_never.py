"""Admission that waits for something that does not come."""

from twin.policy import ADMIT, LATER, Policy


class AdmitsNever(Policy):
    """Bad: comes in only who finds half of the blocks free after its own, even on an idle machine."""

    def admit(self, request, view):
        return LATER if request.prompt_tokens > 12 else ADMIT
