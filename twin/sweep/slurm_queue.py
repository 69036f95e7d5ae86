"""A Slurm cluster without accounting: the queue tells which jobs have ended.

submitit (1.5) asks `sacct` alone. Where that has no data base to read, a job that was cancelled or lost its node stays
UNKNOWN, and its sweep would wait for ever.
"""

import subprocess
from typing import Any

from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

TIMEOUT_S = 60.0


class QueueWatcher(SlurmInfoWatcher):
    """Has a job that is in the queue no more for ended: whether it left a result is then seen from its files."""

    def _make_command(self) -> list[str] | None:
        if super()._make_command() is None:  # there is nothing to wait for
            return None
        return ["squeue", "--me", "--array", "--noheader", "--format=%i|%T"]

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        text = string if isinstance(string, str) else string.decode()
        queued = dict(line.strip().split("|") for line in text.splitlines() if "|" in line)
        return {job: {"JobID": job, "State": queued.get(job, "COMPLETED")} for job in self._registered}


def watch_without_accounting(run: Any = subprocess.run) -> None:
    """Lets submitit ask the queue where `sacct` answers that there is no accounting."""
    try:
        accounting = run(["sacct", "--noheader", "--allocations"], capture_output=True, timeout=TIMEOUT_S).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        accounting = False
    if not accounting and not isinstance(SlurmJob.watcher, QueueWatcher):
        SlurmJob.watcher = QueueWatcher(delay_s=60)
