"""A Slurm cluster without accounting: what has left the queue has ended."""

import subprocess

import pytest

pytest.importorskip("submitit")

from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob  # noqa: E402

from twin.sweep.slurm_queue import QueueWatcher, watch_without_accounting  # noqa: E402

QUEUE = "7_2|PENDING\n7_1|RUNNING\n9|RUNNING\n"  # squeue --array --noheader --format=%i|%T


def watcher(*jobs: str) -> QueueWatcher:
    made = QueueWatcher()
    for job in jobs:
        made.register_job(job)
    return made


def test_a_job_that_is_in_the_queue_no_more_has_ended():
    info = watcher("7_0", "7_1", "7_2").read_info(QUEUE)
    assert {job: about["State"] for job, about in info.items()} == {"7_0": "COMPLETED", "7_1": "RUNNING", "7_2": "PENDING"}


def test_an_empty_queue_ends_all_and_nothing_is_asked_then(monkeypatch):
    watched = watcher("7_0")
    asked = []
    monkeypatch.setattr(subprocess, "check_output", lambda command, **_: asked.append(command) or b"")
    assert watched.is_done("7_0", mode="force") and watched.is_done("7_0", mode="force")
    assert [command[0] for command in asked] == ["squeue"]  # once: what has ended is not asked for again


@pytest.mark.parametrize(("status", "kind"), [(0, SlurmInfoWatcher), (1, QueueWatcher), (None, QueueWatcher)])
def test_the_queue_is_asked_only_where_there_is_no_accounting(status, kind, monkeypatch):
    def sacct(*_, **__):
        if status is None:
            raise FileNotFoundError("sacct")
        return subprocess.CompletedProcess([], status)

    monkeypatch.setattr(SlurmJob, "watcher", SlurmInfoWatcher())
    watch_without_accounting(sacct)
    assert type(SlurmJob.watcher) is kind
