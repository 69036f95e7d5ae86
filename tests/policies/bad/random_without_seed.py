"""A lottery that nobody can repeat."""

import random

from twin.policy import Policy


class RandomWithoutSeed(Policy):
    """Bad: draws from the generator that all share, seeded by the time."""

    def order(self, request, view):
        return random.random()
