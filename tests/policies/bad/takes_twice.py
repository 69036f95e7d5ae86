"""A plan that gives the same request tokens twice."""

from twin.policy import Plan, Policy


class TakesTwice(Policy):
    """Bad: whoever runs is taken once for its token and once more."""

    def schedule(self, view):
        plan = Plan(view)
        for request in view.running:
            plan.take(request)
            plan.take(request)
        while (head := view.head) and plan.take(head):
            pass
        return plan
