"""The table of a profile and its files, by hand; and a whole profile of a tiny model."""

import csv
import json
import re
from pathlib import Path

import pandas
import pytest
import torch
from pyarrow import parquet

from engine.errors import EngineError
from engine.profile.composition import Composition
from engine.profile.contamination import load_reader
from engine.profile.environment import device_name, environment
from engine.profile.measure import Measuring, Options, Profile, Row
from engine.profile.report import by_kind, contamination, summary_line
from engine.profile.stepper import Stepper, Timing
from engine.profile.table import COLUMNS, METADATA_KEY, Columns, check_names, columns, write
from tests.docs.pages import page
from tests.engine.profile.tiny import LIMITS, tiny_runner
from twin.results.atomic import OutputError

DECODE, MIXED = Composition("decode", 4, 32), Composition("mixed", 3, 40, 2, 20, 5, blocks_out=6)
TYPES = {"int": "int64", "float": "float64", "bool": "bool", "string": "string"}


def profile() -> Profile:
    """Two repeats of a clean point, and two of one with foreign load whose times differ."""
    return Profile([
        Row(0, DECODE, 0, 0, 0.5, Timing(0.010, 0.008, 0.009, 0.010, 0), None),
        Row(1, MIXED, 0, 1, 0.6, Timing(0.048, 0.040, 0.045, 0.060, 2), "other processes used 1.0 of 2 CPUs"),
        Row(1, MIXED, 1, 2, 0.7, Timing(0.052, 0.060, 0.050, 0.061, 2), None),
        Row(0, DECODE, 1, 3, 0.8, Timing(0.010, 0.008, 0.009, 0.010, 0), None),
    ])  # fmt: skip


def test_a_row_by_hand():
    table = columns(profile())
    row = {name: values[1] for name, values in table.items()}
    assert row.pop("host_s") == pytest.approx(0.008)
    assert row.pop("spread") == pytest.approx(0.0028284271 / 0.05)  # (0.002^2 + 0.002^2) / 1, its root, over the mean
    assert row == {
        "point": 1, "repeat": 0, "order": 1, "started_s": 0.6, "kind": "mixed", "decode_context": 40, "chunk": 20,
        "chunk_before": 5, "swapped_out_blocks": 6, "swapped_in_blocks": 0, "copies": 2, "sequences": 5,
        "prefill_tokens": 40, "decode_tokens": 3, "context_tokens": 170, "prefill_context_tokens": 50,
        "prefill_attention": 600.0, "prefill_sequences": 2, "duration_s": 0.048, "device_s": 0.040, "launch_s": 0.045,
        "settled_s": 0.060, "contaminated": True,
        "reason": "repeats differ by 5.7%, above 5%; other processes used 1.0 of 2 CPUs",
    }  # fmt: skip
    assert list(table) == list(COLUMNS)


def test_clean_rows_have_no_reason():
    table = columns(profile())
    assert table["contaminated"] == [False, True, True, False]
    assert table["reason"][0] is None and table["spread"][0] == 0.0
    assert "busy for 60000.00 us of a step of 52000.00 us" in table["reason"][2]


def test_contamination_is_counted_by_reason():
    counts = contamination(profile())
    assert counts == {
        "rows": 4, "contaminated_rows": 2, "contaminated_points": 1,
        "reasons": {
            "repeats differ by more than 5 %": 2, "other processes at work": 1,
            "the device was busy for longer than the step": 1,
        },
    }  # fmt: skip
    assert summary_line(counts) == (
        "2 of 4 rows, of 1 points, are contaminated: repeats differ by more than 5 % (2 rows), other processes at work "
        "(1 rows), the device was busy for longer than the step (1 rows)"
    )
    clean = Profile([row for row in profile().rows if row.point == 0])
    assert summary_line(contamination(clean)) == "2 rows, none contaminated"


def test_extremes_by_kind():
    assert by_kind(columns(profile())) == [("decode", 2, 0.010, 0.010, 0.010), ("mixed", 2, 0.048, 0.052, 0.052)]


def test_parquet_holds_columns_types_and_metadata(tmp_path: Path):
    write(tmp_path / "steps.parquet", columns(profile()), {"model": "tiny"})
    schema = parquet.read_schema(tmp_path / "steps.parquet")
    assert [(field.name, str(field.type).replace("double", "float64")) for field in schema] == [
        (name, TYPES[column.kind]) for name, column in COLUMNS.items()
    ]
    metadata = json.loads(schema.metadata[METADATA_KEY])
    assert metadata["model"] == "tiny" and metadata["columns"]["duration_s"]["unit"] == "s"
    frame = pandas.read_parquet(tmp_path / "steps.parquet")
    assert frame["duration_s"].tolist() == [0.010, 0.048, 0.052, 0.010]
    assert frame["reason"].isna().tolist() == [True, False, False, True]


def test_csv_holds_the_same_and_its_metadata_lie_beside_it(tmp_path: Path):
    table = columns(profile())
    write(tmp_path / "steps.csv", table, {"model": "tiny"})
    with open(tmp_path / "steps.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["settled_s"]) for line in lines] == table["settled_s"]
    assert lines[1]["reason"] == table["reason"][1] and lines[0]["reason"] == ""
    metadata = json.loads((tmp_path / "steps.csv.meta.json").read_text())
    assert metadata["model"] == "tiny" and list(metadata["columns"]) == list(COLUMNS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.csv", "steps.csv.meta.json"]


@pytest.mark.parametrize("name", ["steps.parquet", "steps.csv"])
def test_a_folder_that_is_not_there(tmp_path: Path, name: str):
    with pytest.raises(OutputError, match="cannot write"):
        write(tmp_path / "none" / name, columns(profile()), {})


def test_names_say_which_kind_of_file():
    check_names([Path("a.csv"), Path("b.parquet")])
    with pytest.raises(EngineError, match=r"profile.to=a.xlsx: the name must end in .parquet or .csv"):
        check_names([Path("a.xlsx")])


def test_every_column_is_documented_with_its_type_and_unit():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*?) ?\| (.*) \|$", page("profile"), re.MULTILINE)
    wanted = [(name, TYPES[kind], unit, meaning) for name, (kind, unit, meaning) in COLUMNS.items()]
    assert [row for row in rows if row[0] in COLUMNS] == wanted


def test_every_key_of_the_metadata_is_documented():
    told = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page("profile"), re.MULTILINE)
    assert set(environment(tiny_runner(), LIMITS)) <= set(told)


def test_the_environment_of_a_tiny_model():
    about = environment(tiny_runner(torch.bfloat16), LIMITS)
    json.dumps(about)
    assert (about["model"], about["dtype"], about["kv_cache_dtype"], about["attention"]) == ("tiny", "fp32", "bf16", "torch")
    assert about["shape"]["kv_heads"] == 2 and about["device"] == "cpu" and about["device_name"]
    assert about["block_bytes"] == 2 * 2 * 4 * 2 * 8 * 2 and about["versions"]["torch"] == torch.__version__


def test_the_name_of_a_cpu(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: A CPU @ 2 GHz\n")
    assert device_name(torch.device("cpu"), tmp_path / "cpuinfo") == "A CPU @ 2 GHz"
    assert device_name(torch.device("cpu"), tmp_path / "none")


def test_a_whole_profile_of_a_tiny_model(tmp_path: Path):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runner = tiny_runner()
        load = load_reader(runner.device)
        measuring = Measuring(LIMITS, Stepper(runner, LIMITS).measure, load, Options(budget_s=3.0, repeats=2))
        measuring.run()
    finally:
        torch.set_num_threads(before)
    done = measuring.profile
    table: Columns = columns(done)
    assert done.complete and {"decode", "prefill"} <= set(table["kind"])
    assert all(0 < device <= duration for device, duration in zip(table["device_s"], table["duration_s"], strict=True))
    assert all(host >= 0 for host in table["host_s"])
    assert table["order"] == list(range(len(done.rows))) and table["started_s"] == sorted(table["started_s"])
    write(tmp_path / "steps.parquet", table, environment(runner, LIMITS))
    assert len(pandas.read_parquet(tmp_path / "steps.parquet")) == len(done.rows)
