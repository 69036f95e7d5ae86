"""Accounts that belong to the class, not to the policy."""

from twin.policy import Policy


class LeaksBetweenRuns(Policy):
    """Bad: what users were served in one run counts in the next."""

    served: dict[str, int] = {}

    def on_admit(self, request, view):
        self.served[request.user or ""] = self.served.get(request.user or "", 0) + request.prompt_tokens

    def order(self, request, view):
        return self.served.get(request.user or "", 0)
