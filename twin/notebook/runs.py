"""`twin.run`: from keywords to a finished simulation."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.cli.compose import Composed, compose
from twin.cli.errors import UserError, one_line
from twin.cli.folder import claim, release
from twin.cli.job import Job, build, command_line
from twin.cli.options import check_options
from twin.cli.oracle import NOTE, none_chosen
from twin.cli.pool_view import PoolWatch
from twin.cli.run import summarized
from twin.core.errors import PolicyError
from twin.notebook.options import path_of, words_from
from twin.notebook.own_policy import NO_CERTIFICATE, found_in
from twin.notebook.result import Run, Runs

if TYPE_CHECKING:
    from twin.policies_registry import PolicyFile
    from twin.results.record import Record


def run(options: Mapping[str, Any] | None = None, /, *, folder: str | Path | None = None, **keywords: Any) -> Run | Runs:
    """Simulates as `python -m twin run` does, with the same options, and gives the same numbers.

    An option is written by its name: a group, or one of no group (`policy="srpt"`, `seed=3`); with two underscores for the
    dot (`scheduler__max_num_seqs=64`); in a dict of dotted names, first; as a dict of a section
    (`cache={"block_size": 32}`); or by its last name alone where one option is called so (`rate=4` is trace.rate).
    `policy` may also be a class derived from `twin.Policy`, or an object of one. A policy that cannot do without
    predictions gets `predictor="oracle"` where none is given, and a note says so. With `seeds=N` the result is `Runs`.

    `folder`: where to write the run folder too; by default nothing is written.
    Raises `twin.UserError` for a mistake, with the one line that the command prints; `twin.PolicyError` when the policy
    raises, breaks a rule or stalls, the `run` of which has what was done until then. A run that is interrupted (the stop
    button) is returned as far as it came, with a warning.
    """
    try:
        return _run(options, None if folder is None else path_of("folder", folder), keywords)
    except UserError as error:
        raise UserError(one_line(str(error))) from None  # how it came about inside is of no use to who made the mistake


def _run(options: Mapping[str, Any] | None, folder: Path | None, keywords: dict[str, Any]) -> Run | Runs:
    policy = keywords.get("policy")
    found = None
    if policy is not None and not isinstance(policy, str | Mapping):
        found = found_in(policy)
        keywords = keywords | {"policy": found.name}
    try:
        words = words_from(options, keywords, found)
    except RecursionError as error:
        raise UserError("the options: a dict or list among them holds itself") from error
    composed = compose(words)
    check_options(composed.values)
    composed, notes = _with_predictor(composed, words, found)
    if found is not None:
        notes.append(NO_CERTIFICATE.format(name=found.name))
    option = "folder"
    if folder is None and composed.given("hydra.run.dir"):
        folder, option = composed.run_dir, "hydra.run.dir"
    if folder is not None:
        claim(folder, given=True, option=option)  # now, not when all has been simulated
    try:
        if composed.values["seeds"] > 1:
            return _several(composed, found, notes, folder)
        return _one(composed, found, notes, folder)
    finally:
        release([folder] if folder is not None else [])  # goes if nothing is in it


def _with_predictor(composed: Composed, words: list[str], found: "PolicyFile | None") -> tuple[Composed, list[str]]:
    """The oracle for a policy that cannot do without predictions, where none was chosen; and what to say of it."""
    from twin.policies_registry import find
    from twin.policy_parameters import PolicyFileError

    values = composed.values
    if not none_chosen(values, composed):
        return composed, []
    try:
        needs = (found or find(str(values["policy"]["name"]), values["policy_path"])).policy.needs_prediction
    except PolicyFileError as error:
        raise UserError(str(error)) from error
    if not needs:
        return composed, []
    return compose([*words, "predictor=oracle"]), [NOTE.format(who=f"policy {values['policy']['name']}")]


def _several(composed: Composed, found: "PolicyFile | None", notes: list[str], folder: Path | None) -> Runs:
    from twin.cli.seeds import combined, with_seed, write_together

    first, count = composed.values["seed"], composed.values["seeds"]
    done: list[Run] = []
    for seed in range(first, first + count):
        within = None if folder is None else folder / f"seed={seed}"
        done.append(_one(with_seed(composed, seed), found, notes, within))
        if not done[-1].summary["complete"]:
            break
    summary = combined([dict(each.summary) for each in done], count)
    if folder is not None:
        write_together(folder, summary)
    return Runs(done, range(first, first + len(done)), summary)


def _one(composed: Composed, found: "PolicyFile | None", notes: list[str], folder: Path | None) -> Run:
    from twin.results.record import Record

    job = build(composed, command_line("run", composed.overrides), found=found)
    watched = _Watched(job)
    try:
        record = Record(**vars(job.simulation.run(None, job.config["simulate"]["max_wall_s"])))
    except PolicyError as error:
        failed = type(error)(one_line(str(error)))
        failed.record = error.record
        failed.run = _result(job, Record(**vars(error.record)), notes, watched)  # type: ignore[attr-defined]
        raise failed from error.__cause__
    result = _result(job, record, notes, watched)
    if not record.complete:
        warnings.warn(record.notes[0], stacklevel=5)
    if folder is not None:
        result.save(folder, **{name: job.config["output"][name] for name in ("figures", "report", "timeline")})
    return result


class _Watched:
    """What is asked to be kept of each step: its decisions, and the pool for the page that shows it."""

    def __init__(self, job: Job) -> None:
        output = job.config["output"]
        self.decisions: list[dict[str, Any]] | None = [] if output["decisions"] else None
        self.pool = PoolWatch(job.simulation.scheduler) if output["pool_view"] else None
        if job.decisions is not None:
            job.decisions.receiver = self

    def __call__(self, step: dict[str, Any]) -> None:
        if self.decisions is not None:
            self.decisions.append(step)
        if self.pool is not None:
            self.pool(step)


def _result(job: Job, record: "Record", notes: list[str], watched: _Watched) -> Run:
    pool_page = watched.pool.page(job.config) if watched.pool else None
    record.notes += notes
    summary = summarized(job, record)
    return Run(
        job.config_with_provenance(record.notes),
        summary,
        (record.requests, record.steps),
        lines=job.lines,
        notes=record.notes,
        decisions=watched.decisions,
        pool_page=pool_page,
        record=record,
    )
