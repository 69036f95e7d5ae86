"""Little's law for what the command leaves: the two tables of a run against each other (met-12)."""

from pathlib import Path

import numpy as np
import pytest

from tests.theory.commands import run


def in_system(arrival_s: np.ndarray, finish_s: np.ndarray, start_s: float, end_s: float) -> float:
    """Time average of the number in the system over a window, by adding up what lies in it of each stay."""
    inside = np.minimum(finish_s, end_s) - np.maximum(arrival_s, start_s)
    return float(np.maximum(inside, 0).sum()) / (end_s - start_s)


@pytest.mark.parametrize("system", ["textbook", "vllm"])
def test_met_12_in_a_window_of_a_stable_run(tmp_path: Path, system: str):
    done = run("met-12", tmp_path, f"system={system}", num_requests=4000)
    table, (start_s, end_s) = done.requests, (100.0, 700.0)
    arrival_s, finish_s = table["arrival_s"], table["finish_s"]
    inside = (arrival_s >= start_s) & (finish_s <= end_s)
    rate = inside.sum() / (end_s - start_s)
    assert finish_s.max() > end_s
    assert in_system(arrival_s, finish_s, start_s, end_s) == pytest.approx(rate * table["e2e_s"][inside].mean(), rel=0.01)


def test_met_12_sequences_over_steps_are_stays_over_requests(tmp_path: Path):
    """Nobody is preempted, so who was scheduled is in every step until its last: the two sums are the same seconds."""
    done = run("met-12", tmp_path, "system=textbook", num_requests=2000)
    steps, table = done.steps, done.requests
    assert done.summary["preemptions"] == 0
    seats_s = float(steps["sequences"] @ steps["duration_s"])
    assert seats_s == pytest.approx(float((table["finish_s"] - table["first_scheduled_s"]).sum()), rel=1e-9)


def test_met_12_tokens_over_steps_are_tokens_of_the_requests(tmp_path: Path):
    """Every prompt token is computed once; each output token but the first, which the prompt's last step yields, too."""
    done = run("met-12", tmp_path, "system=textbook", num_requests=2000)
    steps, table = done.steps, done.requests
    assert steps["prefill_tokens"] @ steps["repeat"] == table["prompt_tokens"].sum()
    assert steps["decode_tokens"] @ steps["repeat"] == (table["generated_tokens"] - 1).sum()
    gaps_s = float((steps["decode_tokens"] * steps["duration_s"]).sum())
    assert gaps_s == pytest.approx(float((table["finish_s"] - table["first_token_s"]).sum()), rel=0.01)
