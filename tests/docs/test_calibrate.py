"""docs/calibrate.md: the errors of the shipped files, the options, the files that can be read."""

import re

import pytest
import yaml

from tests.docs.pages import page
from twin.calibrate.profile import OWN
from twin.calibrate.readers.step_tables import VLLM_LOG
from twin.calibrate.requests.command import OWN as OF_REQUESTS
from twin.calibrate.scrapes.exposition import COUNTERS
from twin.calibrate.server.findings import LOOKED_FOR
from twin.calibrate.server.startup_log import PRESETS
from twin.latency.fitted import COEFFICIENTS
from twin.latency.make import fitted_folder

SHIPPED = sorted(fitted_folder().glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_errors_of_a_shipped_file_are_those_that_it_states(path):
    error = yaml.safe_load(path.read_text())["error"]
    row = next(line for line in page("calibrate").splitlines() if line.startswith(f"| `{path.stem}` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:5]
    for region, cell in zip(("decode", "prefill", "mixed", "saturated"), cells, strict=True):
        found = error.get(region)
        assert cell == ("not measured" if found is None else f"{found['mape']:.1f} ({found['bias']:+.1f})")


def test_the_errors_against_runs_that_were_not_fitted_are_those_of_the_files():
    told = dict(re.findall(r"^\| (`[^|]*) \| ([\d.]+) \|", page("calibrate"), re.MULTILINE))
    for path in SHIPPED:
        error = yaml.safe_load(path.read_text())["error"]
        for key, what in (
            ("real_run_fitted", "150 requests of vLLM 0.19"),
            ("tensorrt_llm_runs", "42 runs of TensorRT-LLM"),
        ):
            if key in error:
                assert told[f"`{path.stem}`, {what}"] == f"{error[key]['tpot_mape']:.1f}"


def test_every_option_of_a_request_log_and_all_that_is_read_of_a_server_is_explained():
    text = page("calibrate_requests")
    for option in OF_REQUESTS:
        assert f"{option}=" in text
    for option in LOOKED_FOR:
        assert f"`{option}`" in text or f"`{option.split('.')[0]}.*`" in text
    for counter in COUNTERS:
        assert f"`{counter}`" in text or counter.startswith("prefix_cache"), counter
    assert all(f"-{major}.{minor}`" in text for major, minor in PRESETS)


def test_every_option_and_every_term_is_explained():
    text = page("calibrate")
    for option in OWN:
        assert f"`{option}=" in text
    for name in (*COEFFICIENTS, "knees", "tiles", *VLLM_LOG):
        assert re.search(rf"\b{name}\b", text) or name == "per_seq_s", name
