"""What a round plays, in which order, and of which requests: nothing here computes."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.validate import matrix as rounds
from engine.validate.capacity import Capacity
from engine.validate.laboratory import Laboratory
from engine.validate.matrix import Cell, Fit, Matrix, evenly
from twin.cli.compose import compose

SMALL = [
    "model=tiny",
    "cache.num_gpu_blocks=40",
    "engine.threads=1",
    "attention=torch",
    "policy=fcfs",
    "trace.num_requests=9",
]


@dataclass
class Diary:
    """In place of a laboratory: who was played, and of which requests."""

    runs: list[tuple[Any, bool]] = field(default_factory=list)

    def on_engine(self, case: Any, arrivals: Any, skip_idle: bool = False, rows: Any = None, others: bool = False) -> Any:
        self.runs.append((case, others))
        return SimpleNamespace(summary={"finished": 1, "requests": 1}, record=None, steps=[], foreign=None)

    def lockstep(self, case: Any, arrivals: Any) -> tuple[None, int]:
        return None, 1


def played(monkeypatch: pytest.MonkeyPatch, loads: list[float], repeats: int, latency: Any = None) -> tuple[Matrix, Diary]:
    monkeypatch.setattr(rounds, "capacity", lambda record: Capacity(10.0, 100.0, 1.0, True))
    cases = [SimpleNamespace(policy=policy, trace=trace) for policy in "pq" for trace in ("chat", "code")]
    diary: Any = Diary()
    options: Any = SimpleNamespace(loads=loads, repeats=repeats)
    matrix = Matrix(diary, cases, options, latency)  # type: ignore[arg-type]
    matrix.run()
    return matrix, diary


def test_both_kinds_of_runs_are_spread_over_the_round():
    """Two among four: after one of four each, that is at 1/4 and 3/4 of the way; on a tie the fit comes first."""
    a, b, *_ = fits = [Fit(None, load) for load in (None, 0.5)]  # type: ignore[arg-type]
    cells = [Cell(None, load, 1.0) for load in (0.1, 0.2, 0.3, 0.4)]  # type: ignore[arg-type]
    assert evenly(fits, cells) == [cells[0], a, cells[1], cells[2], b, cells[3]]
    assert evenly(fits, cells[:2]) == [a, cells[0], b, cells[1]]
    assert evenly([], cells) == cells and evenly(fits, []) == fits


def test_every_case_is_judged_at_every_load_in_every_round_by_other_requests_than_those_of_the_fit(monkeypatch):
    """2 traces x (burst, 0.3, 0.7) to fit to and 4 cases x 3 loads to judge, a round; before: 2 x 2 bursts."""
    matrix, diary = played(monkeypatch, [0.3, 0.7, 1.3], repeats=2)
    assert [others for _, others in diary.runs[:4]] == [False] * 4
    assert sum(others for _, others in diary.runs) == 2 * 2 * 3 == len(matrix.fitted_to)
    assert all(len(cell.engine) == 2 for cell in matrix.cells) and len(matrix.cells) == 12
    first, second = diary.runs[4:22], diary.runs[22:]
    assert [sum(others for _, others in part) for part in (first, second)] == [6, 6]
    assert [case for case, others in first if not others][0] is not [case for case, others in second if not others][0]


def test_policies_take_turns_in_what_the_model_is_fitted_to(monkeypatch):
    _, diary = played(monkeypatch, [0.3, 0.7], repeats=2)
    fits = [(case.policy, case.trace) for case, others in diary.runs if others]
    turns = {trace: "".join(policy for policy, of in fits if of == trace) for trace in ("chat", "code")}
    assert turns == {"chat": "pqpqpq", "code": "pqpqpq"}  # burst, 0.3, 0.7 of round 1, then of round 2


@pytest.mark.parametrize("loads, names", [([1.3], ["load 0.5"]), ([0.2, 1.0], ["load 0.2"])])
def test_the_fit_plays_the_loads_below_saturation_or_half_of_the_capacity(monkeypatch, loads, names):
    matrix, _ = played(monkeypatch, loads, repeats=1)
    of_chat = [name.rpartition(", ")[2] for name, _ in matrix.fitted_to if "chat" in name]
    assert of_chat == ["burst", *names]


def test_with_a_model_of_the_users_nothing_is_played_to_fit_one(monkeypatch):
    matrix, diary = played(monkeypatch, [0.3], repeats=1, latency=object())
    assert matrix.fitted_to == [] and not any(others for _, others in diary.runs)


def test_the_other_requests_are_of_another_seed_at_the_same_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    try:
        case = Laboratory().open(compose([*SMALL, "trace=chat", "engine.scale=0.25"], root="validate"), "a test")
        whole = Laboratory().open(compose([*SMALL, "trace=chat", "engine.scale=none", "seed=1"], root="validate"), "a test")
    finally:
        torch.set_num_threads(threads)
    assert len(case.others) == len(case.job.trace) == 9
    assert case.others.prompt_tokens.tolist() != case.job.trace.prompt_tokens.tolist()
    quarter = np.maximum(1, np.rint(whole.job.trace.prompt_tokens / 4))
    assert case.others.prompt_tokens.tolist() == quarter.tolist()
    assert whole.job.config["seed"] == 1 and case.job.config["seed"] == 0
