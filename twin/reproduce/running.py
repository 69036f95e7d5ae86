"""The simulations of an experiment, side by side: the options all share, and what each has of its own."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from twin.cli.errors import UserError
from twin.cli.processes import processes
from twin.notebook import run
from twin.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from twin.notebook import Run

Taken = TypeVar("Taken")


def summary_of(simulated: "Run") -> dict[str, Any]:
    """The flat keys of summary.json."""
    return Known(simulated.summary)


class Known(dict[str, Any]):
    """A summary in which what is asked for is a number. Raises UserError for a figure that nothing was measured of."""

    def __getitem__(self, key: str) -> Any:
        if (value := super().__getitem__(key)) is None:
            of = f"{self.get('finished', 0):,} of {self.get('requests', 0):,} requests that count finished"
            raise UserError(f"{key}: nothing to measure it by ({of}); more requests, or longer ones, are needed")
        return value


def simulate(experiment: Experiment, variants: Sequence[Mapping[str, Any]], take: Callable[["Run"], Taken]) -> list[Taken]:
    """What `take` makes of each run, in the order of the variants (dotted options of `twin run`, over the experiment's own).

    `take` is a function at the top of its module, for it is called in the process that simulates; the whole run stays there.
    """
    tasks = [_Task({**experiment.options, **variant}, take) for variant in variants]
    jobs = min(experiment.jobs or os.cpu_count() or 1, len(tasks))
    if jobs == 1:
        return [_carried_out(task) for task in tasks]
    with processes(jobs) as pool:
        return [future.result() for future in [pool.submit(_carried_out, task) for task in tasks]]


class _Task(NamedTuple):
    options: dict[str, Any]
    take: Callable[["Run"], Any]


def _carried_out(task: _Task) -> Any:
    simulated = run(task.options)
    assert not hasattr(simulated, "runs"), "an experiment varies its seeds itself"
    simulated.summary = Known(simulated.summary)  # type: ignore[assignment]
    return task.take(simulated)
