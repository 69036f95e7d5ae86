"""A plan that admits and preempts the same request without end."""

from twin.policy import Plan, Policy


class LoopsInPlan(Policy):
    """Bad: as long as anybody runs the last one gives way and comes in again in the next plan."""

    def schedule(self, view):
        plan = Plan(view)
        for request in view.running:
            plan.preempt(request, "recompute")
        if not plan.preempted and view.head:
            plan.take(view.head)
        return plan
