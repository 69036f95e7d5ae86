"""One scenario under the policy: what came of it, and whether all that must hold does."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from twin.check.result import Result
from twin.check.subject import Subject
from twin.check.watch import Forbidden
from twin.core.errors import PolicyError, Stall
from twin.core.request import Request
from twin.policy_parameters import PolicyFileError
from twin.predictor import Predictor
from twin.results.record import Record
from twin.sim.scenario import ScenarioTrace
from twin.sim.scenario_file import Scenario
from twin.sim.simulation import Outcome, Setup, Simulation

SAME_S = 1e-9  # times that are no further apart are the same
PLANS_A_TOKEN = 100  # a run of more plans than that goes round in circles
DECLARATIONS = (
    "what it declares is not true, for step by step and with fast-forward its decisions differ (say when its decisions "
    "change though nothing arrives, is admitted, ends or is preempted, by steady = False, steady_steps, steady_until, "
    "dynamic or view.reorder(request))"
)
DECISIONS = ("scheduled", "admitted", "preempted", "swapped_in")  # of a step


class Circles(Exception):
    """So many plans that the run will not end."""


@dataclass
class Played:
    """A run: its outcome, or in one line why there is none."""

    simulation: Simulation | None
    outcome: Outcome | None
    error: str | None
    rows: list[dict[str, Any]]  # the steps, unless it was fast-forwarded


def play(subject: Subject, content: dict[str, Any], *, forward: bool = False, predictor: Predictor | None = None) -> Played:
    """Play it; by the definition alone, step by step with its rows, or as usual, with fast-forward.

    `predictor`: another than the subject's.
    """
    steps: list[dict[str, Any]] = []
    simulation = None
    try:
        scenario, policy = subject.scenario(content)
        chosen = predictor or subject.make_predictor()
        setup = Setup(scenario.limits, policy, scenario.latency, scenario.rules, scenario.swap, chosen)
        log = None if forward else steps.append
        trace, literal = ScenarioTrace(scenario), not forward
        simulation = Simulation(setup, trace, step_by_step=literal, decisions=log, literal=literal, keep=True)
        return Played(simulation, simulation.run(_bound(simulation, scenario)), None, steps)
    except Circles as error:
        message = str(error)
    except (PolicyError, PolicyFileError) as error:
        message = str(error)
        if isinstance(error, Stall) and simulation is not None:
            message += f"; who can never run on: {_left(simulation)}"
    except Forbidden as error:  # at a place that the simulator does not recognise as the policy's
        message = str(error)
    except Exception as error:  # its answers broke something that should have refused them: tell it, with what is known
        root = _root(simulation, error)
        message = f"it brings the scheduler down: {type(root).__name__}: {root or 'an invariant does not hold'}"
    return Played(simulation, None, message, steps)


def _bound(simulation: Simulation, scenario: Scenario) -> Any:
    tokens = sum((row.prompt_tokens + row.output_tokens) * row.n for row in scenario.requests)
    most = PLANS_A_TOKEN * tokens + 10_000

    def progress(ended: int, now_s: float) -> None:
        if simulation.scheduler.state.plans > most:
            state = simulation.replica.describe()
            raise Circles(f"it goes round in circles: {most:,} plans for {tokens:,} tokens, and no end ({state})")

    return progress


def _root(simulation: Simulation | None, error: Exception) -> BaseException:
    """What went wrong first."""
    return error if simulation is None or simulation.replica.error is None else simulation.replica.error


def _left(simulation: Simulation) -> str:
    state = simulation.scheduler.state
    there: list[Request] = [*state.running, *state.swapped, *list(state.waiting)]
    words = [f"{r.id} ({r.state}, {r.computed} tokens computed, {r.generated} generated)" for r in there[:4]]
    return ", ".join(words) + (f" and {len(there) - 4} more" if len(there) > 4 else "")


def judge(subject: Subject, name: str, content: dict[str, Any], result: Result) -> Played:
    """Step by step and with fast-forward: everybody accounted for, nothing lost, both the same. Adds to the result."""
    result.cases += 1
    walked = play(subject, content)
    if walked.error is not None:
        result.fail(walked.error, name, content)
        return walked
    for message in _wrong(walked, content):
        result.fail(message, name, content)
    never = [row for row, why in enumerate(walked.outcome.requests["reason"]) if "answered NEVER" in str(why)]  # type: ignore
    if never:
        _rejected(walked, never, name, content, result)
    ran = play(subject, content, forward=True)
    unlike = ran.error or difference(walked.outcome, ran.outcome)  # type: ignore[arg-type]
    if unlike is not None:
        again = play(subject, content, forward=True)
        if (again.error or difference(ran.outcome, again.outcome)) != ran.error:  # type: ignore[arg-type]
            result.fail(f"two runs of the same scenario in one process differ; {unlike}", name, content)
        else:
            result.fail(f"{DECLARATIONS}; {unlike}", name, content)
    return walked


def _wrong(played: Played, content: dict[str, Any]) -> list[str]:
    """What does not hold of a run that came to its end."""
    simulation, outcome = played.simulation, played.outcome
    assert simulation is not None and outcome is not None
    wrong = []
    try:
        Record(**vars(outcome)).check()
    except AssertionError as error:
        wrong.append(f"the record of the run does not hold together: {error}")
    requests, limits, trace = outcome.requests, simulation.setup.limits, simulation.trace
    for row, status in enumerate(requests["status"]):
        who = f"request {requests['request_id'][row]}"
        if status == "unfinished":
            wrong.append(f"{who} neither finished nor was it rejected")
        elif status == "finished":
            most = min(int(trace.output_tokens[row]), limits.max_model_len - int(trace.prompt_tokens[row]))
            most = min(most, int(trace.max_tokens[row])) if trace.max_tokens[row] > 0 else most
            due = most * int(trace.n[row])
            if (came := int(requests["generated_tokens"][row])) != due:
                wrong.append(f"{who} finished with {came} tokens, {due} were due")
    pool = simulation.scheduler.state.pool
    if pool.num_free != limits.num_blocks:
        wrong.append(f"{limits.num_blocks - pool.num_free} of {limits.num_blocks} blocks did not come back")
    if len(pool.free_host) != limits.num_host_blocks:
        wrong.append(f"{limits.num_host_blocks - len(pool.free_host)} of {limits.num_host_blocks} host blocks are lost")
    return wrong


def _rejected(played: Played, never: list[int], name: str, content: dict[str, Any], result: Result) -> None:
    """It would fit, and the policy says NEVER: with other work at hand that is its choice, on an idle system a failure."""
    assert played.outcome is not None
    first = played.outcome.requests["request_id"][never[0]]
    if len(content["requests"]) == 1:
        result.fail(f"request {first} can never run: it fits, it is alone, and the policy answered NEVER", name, content)
    elif len(never) == len(content["requests"]):
        result.fail(f"no request can ever run: the policy answered NEVER to all {len(never)}, which fit", name, content)
    else:
        result.find("it rejects requests that fit (answers NEVER)")


# --- two runs


def difference(one: Outcome, other: Outcome) -> str | None:
    """The first thing in which two outcomes are not the same; wall time is nobody's affair."""
    ids = one.requests["request_id"]
    for column in one.requests:
        mine, theirs = np.asarray(one.requests[column]), np.asarray(other.requests[column])
        if not _same(mine, theirs):
            row = next(row for row in range(len(mine)) if not _same(mine[row : row + 1], theirs[row : row + 1]))
            return f"request {ids[row]}: {column} {mine[row]} and {theirs[row]}"
    for column in one.steps:
        mine, theirs = np.asarray(one.steps[column]), np.asarray(other.steps[column])
        if not _same(mine, theirs):
            return f"steps: {column} differs"
    for field in fields(Outcome):
        if field.name in ("requests", "steps", "wall_s") or field.name.startswith("itl"):
            continue
        if not _same(np.asarray(getattr(one, field.name)), np.asarray(getattr(other, field.name))):
            return f"{field.name} differs"
    return None


def _same(mine: np.ndarray, theirs: np.ndarray) -> bool:
    if mine.dtype.kind == "f" and mine.shape == theirs.shape:
        return bool(np.allclose(mine, theirs, rtol=0, atol=SAME_S, equal_nan=True))
    return bool(np.array_equal(mine, theirs))


def first_unlike(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> int | None:
    """The place of the first step in which two logs decide otherwise."""
    for place in range(max(len(mine), len(theirs))):
        if place >= len(mine) or place >= len(theirs) or decided(mine[place]) != decided(theirs[place]):
            return place
    return None


def decided(row: dict[str, Any]) -> list[Any]:
    """What a step decides, order included."""
    return [list(row[key].items()) if isinstance(row[key], dict) else row[key] for key in DECISIONS]


def in_words(rows: list[dict[str, Any]], place: int) -> str:
    """A step's decisions in short."""
    if place >= len(rows):
        return "nothing more"
    row = rows[place]
    parts = [f"scheduled {', '.join(row['scheduled']) or 'nobody'}"]
    parts += [f"preempted {', '.join(row['preempted'])}"] if row["preempted"] else []
    return "; ".join(parts)
