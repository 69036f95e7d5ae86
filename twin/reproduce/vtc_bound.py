"""Service of two backlogged clients: the virtual token counter against its bound, and first come, first served."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.own_trace import folder_of
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    import pandas

    from twin.notebook import Run

ALIKE = 0.05
FEW, MANY = "few", "many"  # the clients, by what they ask for
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2


class Services(NamedTuple):
    """What the two got, in weighted tokens, while both had somebody waiting."""

    few: int
    many: int
    apart: int  # the most that they differ by in any interval within


def bound(prompt_weight: float, longest_prompt: int, output_weight: float, pool_tokens: int) -> float:
    """Theorem 4.4, in weighted tokens."""
    return 2 * max(prompt_weight * longest_prompt, output_weight * pool_tokens)


def run(experiment: Experiment) -> list[Figure]:
    values, published = experiment.values, experiment.published
    if len(values["rates_per_minute"]) != 2:
        raise UserError(f"rates_per_minute: {values['rates_per_minute']} must be two, of who asks for less and for more")
    with folder_of({"clients": clients(values)}) as play:
        variants = [
            play["clients"] | {"cache.num_gpu_blocks": values["pool_tokens"], "policy": name} for name in ("vtc", "fcfs")
        ]
        vtc, fcfs = simulate(experiment, variants, services)
    most = bound(published["prompt_weight"], values["prompt_tokens"], published["output_weight"], values["pool_tokens"])
    vtc_ratio, fcfs_ratio = vtc.many / vtc.few, fcfs.many / fcfs.few
    return [
        Figure("most that they differ by in an interval, vtc", f"<= {most:,.0f}", f"{vtc.apart:,}", None, vtc.apart <= most),
        Figure(
            "the same, first come, first served",
            "no bound",
            f"{fcfs.apart:,}, after {fcfs.few + fcfs.many:,}",
            fcfs.apart > most,
            None,
        ),
        _ratio("vtc", published["vtc_ratio"], vtc_ratio, vtc_ratio < fcfs_ratio),
        _ratio("first come, first served", published["fcfs_ratio"], fcfs_ratio, vtc_ratio < fcfs_ratio),
    ]


def _ratio(policy: str, published: float, ours: float, direction: bool) -> Figure:
    what = f"service of who asks for twice as much / of the other, {policy}"
    return Figure(what, f"{published:g}", f"{ours:.3f}", direction, near(ours, published, ALIKE))


def clients(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Both ask at an even pace; the first requests come half a gap after the start."""
    asked = []
    for user, per_minute in zip((FEW, MANY), values["rates_per_minute"], strict=True):
        gap_s = 60 / per_minute
        count = int(values["duration_s"] / gap_s)
        asked += [((number + 0.5) * gap_s, user) for number in range(count)]
    asked.sort()
    return {
        "arrival_s": [arrival_s for arrival_s, _ in asked],
        "prompt_tokens": [values["prompt_tokens"]] * len(asked),
        "output_tokens": [values["output_tokens"]] * len(asked),
        "user": [user for _, user in asked],
    }


def services(simulated: "Run") -> Services:
    """From when both clients first have somebody waiting until one has nobody any more; a prompt counts when it is computed.

    A row of the steps is a stretch in which nobody comes or goes: whoever has begun gets a token in each of its steps, so
    that the difference is largest at an end of a row. In an interval it changes by its largest value less its smallest.
    """
    assert not simulated.summary["preemptions"], "a request that was preempted gets no token in each step"
    steps, table = simulated.steps, simulated.requests
    ends_s = (steps.start_s + steps.duration_s).to_numpy()
    taken = steps["repeat"].cumsum().to_numpy()
    begin_s, stop_s = backlogged(table)
    within = (begin_s <= ends_s) & (ends_s <= stop_s)
    if not within.any():
        raise UserError("duration_s, rates_per_minute: at no time does each of the two clients have somebody waiting")
    got = {}
    for user in (FEW, MANY):
        got[user] = np.zeros(int(within.sum()))
        rows = table[(table.user == user) & table.first_token_s.notna()]
        firsts = taken[np.searchsorted(ends_s, rows.first_token_s.to_numpy() - 1e-9)]
        for first, prompt, outputs in zip(firsts, rows.prompt_tokens.tolist(), rows.generated_tokens.tolist(), strict=True):
            tokens = np.clip(taken[within] - first + 1, 0, outputs)
            got[user] += PROMPT_WEIGHT * prompt * (tokens > 0) + OUTPUT_WEIGHT * tokens
        got[user] -= got[user][0]
    difference = got[FEW] - got[MANY]
    return Services(int(got[FEW][-1]), int(got[MANY][-1]), int(difference.max() - difference.min()))


def backlogged(table: "pandas.DataFrame") -> tuple[float, float]:
    """Seconds between which both clients always have somebody waiting, the longest such time from the start of the queue."""
    begin_s, stop_s = 0.0, float("inf")
    for user in (FEW, MANY):
        rows = table[table.user == user].sort_values("first_scheduled_s", na_position="last")
        taken_s = rows.first_scheduled_s.to_numpy()
        next_arrival_s = np.sort(rows.arrival_s.to_numpy())[1:]
        empty = taken_s[:-1] <= next_arrival_s  # its queue is empty from then until the next arrives
        last = int(np.flatnonzero(empty).max(initial=-1))
        begin_s = max(begin_s, float(next_arrival_s[last]) if last >= 0 else 0.0)
        stop_s = min(stop_s, float(taken_s[-1]))
    return begin_s, stop_s
