"""The first step in which two schedules part, by decisions and by steps."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.results.records import steps
from twin.compare.schedule import by_decisions, by_steps, parting
from twin.results.columns import STEPS, complete
from twin.results.load import RunError


def step(number: int, scheduled: dict[str, int], start_s: float | None = None, **others) -> dict:
    start = float(number - 1) if start_s is None else start_s
    empty: dict = {"admitted": [], "preempted": {}, "swapped_in": [], "finished": []}
    return {"step": number, "start_s": start, "end_s": start + 1, "scheduled": scheduled, **empty, **others}


def table(**columns) -> dict[str, np.ndarray]:
    return complete(STEPS, steps(**columns), {})


def test_equal_decisions_never_part():
    same = [step(1, {"a": 16}), step(2, {"a": 1, "b": 16})]
    assert by_decisions(iter(same), iter([dict(each) for each in same])).step is None


def test_who_was_chosen():
    first = [step(1, {"a": 16}), step(2, {"a": 1, "b": 16}, admitted=["b"])]
    second = [step(1, {"a": 16}), step(2, {"a": 1, "c": 9}, admitted=["c"])]
    at = by_decisions(iter(first), iter(second))
    assert (at.step, at.start_s) == (2, 1.0)
    assert at.first == "scheduled b: 16; admitted b" and at.second == "scheduled c: 9; admitted c"


def test_order_is_a_decision_and_so_is_who_is_preempted():
    at = by_decisions(iter([step(1, {"a": 1, "b": 1})]), iter([step(1, {"b": 1, "a": 1})]))
    assert at.step == 1 and at.first == "scheduled a: 1, b: 1" and at.second == "scheduled b: 1, a: 1"
    at = by_decisions(iter([step(1, {"a": 1}, preempted={"b": "swap"})]), iter([step(1, {"a": 1})]))
    assert (at.first, at.second) == ("preempted b: swap", "preempted nobody")


def test_a_later_start_and_an_end_part_too():
    at = by_decisions(iter([step(1, {"a": 1})]), iter([step(1, {"a": 1}, start_s=0.5)]))
    assert (at.first, at.second) == ("start_s 0.0", "start_s 0.5")
    at = by_decisions(iter([step(1, {"a": 1})]), iter([step(1, {"a": 1}), step(2, {"a": 1})]))
    assert (at.step, at.first, at.second) == (2, "it had ended", "scheduled a: 1")


def test_steps_are_compared_however_they_are_folded():
    # Five equal steps as one row, as two rows, and as five; the times are those of one second a step.
    alone = table(decode_tokens=[2] * 5, sequences=[2] * 5)
    whole = table(decode_tokens=[2], sequences=[2], repeat=[5], duration_s=[5.0])
    halves = table(
        step=[1, 4], start_s=[0.0, 3.0], duration_s=[3.0, 2.0], repeat=[3, 2], decode_tokens=[2, 2], sequences=[2, 2]
    )
    for one in (alone, whole, halves):
        for other in (alone, whole, halves):
            assert by_steps(one, other).step is None
    longer = table(decode_tokens=[2], sequences=[2], repeat=[7], duration_s=[7.0])
    at = by_steps(whole, longer)
    assert at.first == "it had ended" and at.second.startswith("prefill_tokens 0; decode_tokens 2")


def test_the_first_step_of_other_counts():
    first = table(
        step=[1, 4], start_s=[0.0, 3.0], duration_s=[3.0, 1.0], repeat=[3, 1], decode_tokens=[2, 2], sequences=[2, 2]
    )
    second = table(decode_tokens=[2, 2, 2, 3], sequences=[2, 2, 2, 3])
    at = by_steps(first, second)
    assert (at.step, at.start_s, at.first, at.second) == (
        4,
        3.0,
        "decode_tokens 2; sequences 2",
        "decode_tokens 3; sequences 3",
    )


def test_what_a_step_left_behind():
    at = by_steps(table(sequences=[1, 1], waiting=[0, 1]), table(sequences=[1, 1], waiting=[0, 2]))
    assert (at.step, at.first, at.second) == (2, "waiting 1", "waiting 2")


def test_decisions_come_before_counts_where_both_have_them(tmp_path):
    tables = table(sequences=[1]), table(sequences=[2])
    for name, who in (("a", "x"), ("b", "y")):
        (tmp_path / name).mkdir()
        with gzip.open(tmp_path / name / "decisions.jsonl.gz", "wt") as lines:
            lines.write(json.dumps(step(1, {who: 1})) + "\n")
    assert parting(tmp_path / "a", tmp_path / "b", tables).source == "decisions.jsonl.gz"
    (tmp_path / "b" / "decisions.jsonl.gz").unlink()
    assert parting(tmp_path / "a", tmp_path / "b", tables).source == "steps.parquet"


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"{}\n"), gzip.compress(b"{\n"), gzip.compress(b"x" * 9999)[:20]]
)
def test_a_file_that_is_damaged_is_named(tmp_path: Path, content):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "decisions.jsonl.gz").write_bytes(content)
    with pytest.raises(RunError, match="decisions.jsonl.gz"):
        parting(tmp_path / "a", tmp_path / "b", (table(), table()))
