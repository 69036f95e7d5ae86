"""docs/vllm.md: its table is what the presets and the oracle know, its example the one that is tested."""

import yaml

from engine.oracle.versions import BASE, DIFFERENCES
from tests.docs.pages import blocks, page
from tests.sim.test_vllm_rules import STALE
from twin.cli.compose import compose
from twin.core.limits import VLLM_RULES, Rules

VERSIONS = ("0.33", "0.32", "0.21", "0.11")  # the columns


def table() -> dict[str, dict[str, bool]]:
    """Option -> version -> value."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page("vllm").splitlines() if line.startswith("| `")]
    return {
        row[0].strip("`"): {version: value == "true" for version, value in zip(VERSIONS, row[1:5], strict=True)}
        for row in rows
    }


def test_the_table_says_what_the_presets_set() -> None:
    options = table()
    assert set(VERSIONS) == DIFFERENCES.keys() and "| option | 0.33 | 0.32 | 0.21 | 0.11 |" in page("vllm")
    assert options.keys() == {"scheduler.async_scheduling"} | {f"{section}.{name}" for name, section in VLLM_RULES.items()}
    for version in VERSIONS:
        values = compose([f"system=vllm-{version}"]).values
        for option, told in options.items():
            section, name = option.split(".")
            assert values[section][name] == told[version], (version, option)
    for name, section in VLLM_RULES.items():
        assert options[f"{section}.{name}"][BASE] == getattr(Rules(), name)


def test_its_scenario_is_the_one_that_is_tested() -> None:
    content = yaml.safe_load(blocks("vllm", "yaml")[0])
    requests = [{"id": row["id"], "prompt_tokens": row["prompt_tokens"], "output_tokens": row["output_tokens"]}
                for row in STALE["requests"]]  # fmt: skip
    assert content == STALE | {"requests": requests}
