"""A policy that starts what never ends."""

import threading

from twin.policy import Policy


class LeavesAThread(Policy):
    """Bad manners: a thread that waits for ever, which no process outlives."""

    def __init__(self) -> None:
        threading.Thread(target=threading.Event().wait).start()
