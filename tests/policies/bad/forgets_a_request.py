"""A whole plan that loses sight of somebody."""

from twin.policy import Plan, Policy


class ForgetsARequest(Policy):
    """Bad: every third request that comes in is given its first tokens and never looked at again."""

    def __init__(self) -> None:
        self.admitted = 0
        self.forgotten: set[str] = set()

    def schedule(self, view):
        plan = Plan(view)
        for request in view.running:
            if request.id in self.forgotten:
                continue
            while not plan.take(request) and plan.budget and request.state == "running":
                plan.preempt(plan.victim())
        while not plan.preempted and (head := view.head) and plan.take(head):
            self.admitted += 1
            if self.admitted % 3 == 0:
                self.forgotten.add(head.id)
        return plan
