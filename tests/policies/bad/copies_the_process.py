"""A policy that would be scheduled twice."""

import os

from twin.policy import Policy


class CopiesTheProcess(Policy):
    """Bad: each arrival leaves a copy of the process, which goes on with the scenario."""

    def on_arrival(self, request, view):
        getattr(os, "fork")()  # noqa: B009
