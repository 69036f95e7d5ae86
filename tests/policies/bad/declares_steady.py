"""An order that changes as requests run, declared as one that does not."""

from twin.policy import Policy


class DeclaresSteady(Policy):
    """Bad: least attained service first, preemptive; that a running request comes to stand behind is not said."""

    preempts = True
    steady = True

    def order(self, request, view):
        return request.generated
