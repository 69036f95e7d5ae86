"""Files of a run: whole or not at all, and the same bytes for the same run."""

import gzip
import hashlib
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.results.records import queue, two
from twin.results.atomic import OutputError
from twin.results.decisions import DecisionsWriter
from twin.results.folder import RunFolder, ensure_writable
from twin.results.load import RunError, load_run
from twin.results.save import provenance, save_run
from twin.results.summary import summarize

CONFIG = {
    "policy": {"name": "fcfs"}, "trace": {"name": "chat"}, "slo": {"ttft_s": None},
    "provenance": provenance(command="twin run", policy={"class": "Fcfs"}, versions={"twin": "0"}),
}  # fmt: skip


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the system refuses to write, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def digest(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names(folder)}


def test_a_run_leaves_what_was_promised_and_reads_back(tmp_path: Path):
    made = two()
    save_run(tmp_path / "a" / "b", made, summarize(made), CONFIG, timeline=True)
    assert names(tmp_path / "a" / "b") == [
        "config.yaml", "figures/latency.png", "figures/load.png", "report.html", "requests.parquet", "steps.parquet",
        "summary.json", "timeline.json.gz",
    ]  # fmt: skip
    run = load_run(tmp_path / "a" / "b")
    assert run.config == CONFIG and run.summary == summarize(made)
    for table, original in ((run.requests, made.requests), (run.steps, made.steps)):
        assert list(table) == list(original)
        for name, column in original.items():
            assert table[name].dtype == column.dtype, name
            assert [str(value) for value in table[name]] == [str(value) for value in column], name


def test_the_same_run_gives_the_same_bytes(tmp_path: Path):
    for name in ("one", "two"):
        made = queue(2500)
        save_run(tmp_path / name, made, summarize(made), CONFIG, timeline=True)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_pictures_of_an_earlier_run_do_not_outlive_its_numbers(tmp_path: Path):
    made = two()
    save_run(tmp_path, made, summarize(made), CONFIG, timeline=True)
    save_run(tmp_path, made, summarize(made), CONFIG, figures=False, report=False)
    assert names(tmp_path) == ["config.yaml", "requests.parquet", "steps.parquet", "summary.json"]


def test_a_full_disk_is_one_line_and_leaves_nothing_new(tmp_path: Path):
    made = queue(2500)
    (tmp_path / "summary.json").write_text("older")
    with disk_full_after(20_000), pytest.raises(OutputError, match=r"^cannot write .*requests.parquet: [^\n]+$"):
        save_run(tmp_path, made, summarize(made), CONFIG)
    assert names(tmp_path) == ["summary.json"] and (tmp_path / "summary.json").read_text() == "older"


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"^cannot make the folder .*file/run: Not a directory$"):
        ensure_writable(tmp_path / "file" / "run")


def test_trying_a_folder_leaves_it_empty(tmp_path: Path):
    ensure_writable(tmp_path / "run")
    assert names(tmp_path) == []


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path) as folder:
        folder.text("report.html", "begun")
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_summary_has_no_nan(tmp_path: Path):
    with pytest.raises(ValueError), RunFolder(tmp_path) as folder:
        folder.summary({"ttft_s_mean": float("nan")})
    assert names(tmp_path) == []


def test_floats_keep_their_last_digit(tmp_path: Path):
    with RunFolder(tmp_path) as folder:
        folder.summary({"b": 0.1 + 0.2, "a": 1})
    assert (tmp_path / "summary.json").read_text() == '{\n  "b": 0.30000000000000004,\n  "a": 1\n}\n'


def test_decisions_are_a_step_a_line(tmp_path: Path):
    path = tmp_path / "decisions.jsonl.gz"
    with DecisionsWriter(path) as decide:
        decide({"step": 1, "scheduled": {"A": 16}})
        decide({"step": 2, "scheduled": {}})
        assert not path.exists()
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert path.read_bytes()[4:8] == bytes(4)  # gzip's time stamp


def test_decisions_survive_an_interrupt_but_no_error(tmp_path: Path):
    for error, left in ((KeyboardInterrupt, ["decisions.jsonl.gz"]), (ZeroDivisionError, [])):
        folder = tmp_path / error.__name__
        folder.mkdir()
        with pytest.raises(error), DecisionsWriter(folder / "decisions.jsonl.gz") as decide:
            decide({"step": 1})
            raise error
        assert names(folder) == left


def test_decisions_on_a_full_disk_are_one_line(tmp_path: Path):
    with disk_full_after(5000), pytest.raises(OutputError, match="^cannot write .*decisions.jsonl.gz: "):
        with DecisionsWriter(tmp_path / "decisions.jsonl.gz") as decide:
            for step in range(100_000):
                decide({"step": step, "noise": hashlib.sha256(str(step).encode()).hexdigest()})
    assert names(tmp_path) == []


@pytest.mark.parametrize("name, content, complaint", [
    ("summary.json", b'{"complete": tru', "summary.json: line 1: Expecting value"),
    ("config.yaml", b"policy: [fcfs\nseed: 1", "config.yaml: line 2: "),
    ("requests.parquet", b"PAR1 not really", "requests.parquet: "),
    ("steps.parquet", None, "is not the folder of a run: steps.parquet is missing"),
])  # fmt: skip
def test_a_damaged_run_is_named_in_one_line(tmp_path: Path, name: str, content: bytes | None, complaint: str):
    made = two()
    save_run(tmp_path, made, summarize(made), CONFIG, figures=False, report=False)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=complaint) as caught:
        load_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_folder_no_run(tmp_path: Path):
    with pytest.raises(RunError, match="there is no such folder"):
        load_run(tmp_path / "nowhere")
