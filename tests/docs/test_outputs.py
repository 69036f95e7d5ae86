"""docs/outputs.md: every column with its type and meaning, every key of the summary, every file."""

import re
from collections.abc import Mapping

import pytest

from tests.docs.pages import page
from tests.results.records import two
from twin.results import columns, folder
from twin.results.summary import summarize

KINDS = {"float": "float64", "int": "int64", "str": "string"}
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def section(title: str) -> str:
    return page("outputs").split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("name, wanted", [("requests.parquet", columns.REQUESTS), ("steps.parquet", columns.STEPS)])
def test_columns_are_documented_in_order_as_the_code_has_them(name: str, wanted: Mapping[str, columns.Column]):
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \w* ?\| (.*) \|$", section(name), re.MULTILINE)
    assert rows == [(column, KINDS[kind.kind], kind.meaning) for column, kind in wanted.items()]


def test_every_key_of_the_summary_is_documented_and_no_other():
    text = section("summary.json")
    names = set(re.findall(r"`([a-z_0-9]+(?:_\*)?)`", "\n".join(re.findall(r"^\| (?!key).*$", text, re.MULTILINE))))
    told = {name.replace("*", each) for name in names for each in (STATISTICS if name.endswith("*") else ("",))}
    assert told - {"warmup_s", "warmup_requests"} == set(summarize(two()))


def test_every_file_is_documented():
    text = page("outputs")
    for file in (folder.CONFIG, folder.SUMMARY, folder.REQUESTS, folder.STEPS, folder.REPORT, folder.TIMELINE, folder.POOL):
        assert f"| `{file}` |" in text
    assert f"`{folder.DECISIONS}`" in text
