"""Strict priorities: the vLLM V1 step with another order and another victim; with ageing and tiers, if wanted."""

from twin.policy import Policy


class Priority(Policy):
    """Lowest `priority` value first, then order of arrival: vLLM V1's `--scheduling-policy priority` (0.32).

    When blocks run out the request with the largest (priority, arrival) is preempted, on a tie the first of the running
    list. As in vLLM, it never preempts for a seat or to admit somebody; with `policy.preempt_for_seat=true` (our
    extension) a newcomer takes the seat and the blocks of a running request of a larger priority value, in that step.
    It needs the requests' `priority`.

    Our additions, for order and victims alike:

    Ageing, against starvation (time-dependent priorities, Kleinrock, Naval Research Logistics Quarterly 1964): after t
    seconds a request counts as one of priority - (t - arrival) / age_s. As t / age_s is the same for all, it may be left
    out: the key priority + arrival / age_s never changes. So a request is overtaken by those of one level better only if
    they arrive less than `age_s` after it.

    Tiers: with `tier_width=10` the values 0 to 9 are one tier, 10 to 19 the next. A request never waits behind one of a
    tier below, however old that is: ageing counts inside a tier only.

    Parameters:
        age_s: seconds after an arrival that are worth one priority level; null (vLLM): no ageing.
        tier_width: so many neighbouring priority values are one tier; null: ageing knows no bounds.
    """

    def __init__(self, age_s: float | None = None, tier_width: int | None = None) -> None:
        if age_s is not None and not age_s > 0:
            raise ValueError(f"age_s must be above 0 seconds, or null for no ageing, not {age_s}")
        if tier_width is not None and tier_width < 1:
            raise ValueError(f"tier_width must be 1 or more levels, or null for no tiers, not {tier_width}")
        self.age_s, self.tier_width = age_s, tier_width

    def order(self, request, view):
        level = request.priority
        if self.age_s is not None:
            level += request.arrival_s / self.age_s
        return level if self.tier_width is None else (request.priority // self.tier_width, level)

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))
