"""A plan that keeps views of requests and does not ask what became of them."""

from twin.policy import Plan, Policy


class PreemptsAFinishedOne(Policy):
    """Bad: after a while it preempts the first request that it ever saw, which has ended long ago."""

    def __init__(self) -> None:
        self.first = None

    def schedule(self, view):
        plan = Plan(view)
        if self.first is None:
            self.first = view.head
        elif self.first.state not in ("running", "waiting", "swapped"):
            plan.preempt(self.first)
        for request in view.running:
            while not plan.take(request) and plan.budget and request.state == "running":
                plan.preempt(plan.victim())
        while not plan.preempted and (head := view.head) and plan.take(head):
            pass
        return plan
