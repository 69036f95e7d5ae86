"""A policy that closes or writes to whatever is open."""

import os

from twin.policy import Policy


class WritesToDescriptors(Policy):
    """Bad: the descriptors beyond the first three are somebody else's."""

    def on_arrival(self, request, view):
        for descriptor in range(3, 16):
            try:
                os.write(descriptor, b"arrived\n")
            except OSError:
                pass
