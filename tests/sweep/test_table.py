"""sweep.parquet and job.json by hand."""

from pathlib import Path

import pyarrow.parquet
import pytest

from twin.sweep import ledger
from twin.sweep.jobs import Job, Plan, Unit
from twin.sweep.launch import DIED, SILENT, carry_through
from twin.sweep.table import read_table, row, write_table


def unit(folder: Path, name: str, status: str = ledger.WAITING, reason: str = "") -> Unit:
    made = Unit(folder / name, name, ("policy=fcfs",), "abc")
    made.folder.mkdir()
    ledger.write(made.folder, ledger.Entry("abc", made.words, status, reason))
    if status == ledger.FINISHED:
        finish(made)
    return made


def finish(done: Unit) -> None:
    """The files of a run, as far as a sweep looks at them."""
    (done.folder / "summary.json").write_text('{"requests": 3}')
    (done.folder / "config.yaml").write_text("")
    for table in ("requests.parquet", "steps.parquet"):
        (done.folder / table).write_bytes(b"PAR1PAR1")
    ledger.mark(done.folder, ledger.FINISHED)


def test_a_row_a_job_and_one_type_a_column(tmp_path):
    done, failed = unit(tmp_path, "a", ledger.FINISHED), unit(tmp_path, "b", ledger.FAILED, "boom")
    jobs = [
        Job("a", done.folder, {"rate": 1, "mixed": "x"}, (done,), 1),
        Job("b", failed.folder, {"rate": 2.5, "mixed": 3}, (failed,), 1),
        Job("c", tmp_path / "c", {"rate": 4, "mixed": None}, (unit(tmp_path, "c"),), 1),
    ]
    rows = [found for job in jobs if (found := row(job, {"requests": 3} if job.name == "a" else None)) is not None]
    plan = Plan(tmp_path, ("rate", "mixed"), jobs)
    write_table(plan, rows)
    swept, read = read_table(tmp_path)
    assert swept == ["rate", "mixed"]
    assert read == [
        {"job": "a", "status": "finished", "reason": None, "rate": 1.0, "mixed": "x", "requests": 3},
        {"job": "b", "status": "failed", "reason": "boom", "rate": 2.5, "mixed": "3", "requests": None},
    ]
    types = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(tmp_path / "sweep.parquet")}
    assert types == dict(job="string", status="string", reason="string", rate="double", mixed="string", requests="int64")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"status": "finished"}', '{"config_sha256": "", "overrides": [], "status": "x"}']
)
def test_a_job_file_that_cannot_be_read_is_nobodys(tmp_path, text):
    (tmp_path / ledger.JOB).write_text(text)
    assert ledger.read(tmp_path) is None


def test_a_folder_of_another_configuration_is_to_be_done(tmp_path):
    done = unit(tmp_path, "a", ledger.FINISHED)
    assert done.status() == ledger.FINISHED
    assert Unit(done.folder, "a", done.words, "other").status() == ledger.WAITING


def test_the_one_that_breaks_the_pool_is_found_and_the_others_end(tmp_path):
    units = [unit(tmp_path, name) for name in "abcd"]
    launches = []

    def launch(batch):
        launches.append([each.subdir for each in batch])
        for each in batch[:2]:
            ledger.mark(each.folder, ledger.RUNNING)
        if any(each.subdir == "b" for each in batch[:2]):
            return False  # two workers had begun; both are gone with the pool
        for each in batch:
            finish(each)
        return True

    carry_through(launch, units)
    assert launches == [["a", "b", "c", "d"], ["a"], ["b"], ["c", "d"]]
    assert [each.status() for each in units] == ["finished", "failed", "finished", "finished"]
    assert units[1].reason() == DIED


def test_a_pool_that_breaks_before_it_begins_ends_the_sweep(tmp_path):
    units = [unit(tmp_path, name) for name in "ab"]
    carry_through(lambda batch: False, units)
    assert [each.reason() for each in units] == [DIED, DIED]


def test_a_job_without_a_result_is_not_waited_for(tmp_path):
    units = [unit(tmp_path, name) for name in "ab"]
    carry_through(lambda batch: finish(batch[0]) is None, units)
    assert [each.status() for each in units] == ["finished", "failed"] and units[1].reason() == SILENT
