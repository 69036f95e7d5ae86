"""What a latency file measured of the link between device and host is what a run swaps with, unless it is told otherwise."""

from pathlib import Path

import pytest
import yaml

from twin.cli.compose import compose
from twin.cli.errors import UserError
from twin.cli.job import build

CONTENT = {"coefficients": {"base_s": 0.01}, "range": {}, "source": "made up"}
TRACE = ("trace=synthetic", "trace.num_requests=1")


def built(folder: Path, swap: dict | None, *words: str):
    path = folder / "file.yaml"
    path.write_text(yaml.safe_dump(CONTENT | ({} if swap is None else {"swap": swap})))
    return build(compose(["latency=fitted", f"latency.path={path}", *TRACE, *words]), "")


def cost(job) -> tuple[float | None, float]:
    return job.simulation.setup.swap.bandwidth_gib_s, job.simulation.setup.swap.per_copy_s


def test_the_link_of_the_file_is_taken_and_said(tmp_path: Path):
    job = built(tmp_path, {"bandwidth_gib_s": 11.5, "per_copy_s": 2e-5})
    assert cost(job) == (11.5, 2e-5)
    assert job.config["swap"] == {"bandwidth_gib_s": 11.5, "per_copy_s": 2e-5, "overlap": False}
    assert any(
        "note: swap.bandwidth_gib_s=11.5 swap.per_copy_s=2e-05, as measured in the latency file" in line
        for line in job.lines
    )


def test_bytes_that_took_no_time_move_for_nothing(tmp_path: Path):
    job = built(tmp_path, {"per_copy_s": 2e-5})
    assert cost(job) == (None, 2e-5) and any("swap.bandwidth_gib_s=null" in line for line in job.lines)


@pytest.mark.parametrize("word", ["swap.bandwidth_gib_s=3", "swap.per_copy_s=0.001"])
def test_the_users_own_options_stand(tmp_path: Path, word: str):
    job = built(tmp_path, {"bandwidth_gib_s": 11.5, "per_copy_s": 2e-5}, word)
    assert cost(job) == ((3, 0.0) if "bandwidth" in word else (25.0, 0.001))
    assert not any("as measured" in line for line in job.lines)


def test_a_preset_under_which_swaps_are_free_stays_so(tmp_path: Path):
    assert cost(built(tmp_path, {"bandwidth_gib_s": 11.5}, "system=textbook")) == (None, 0.0)


def test_a_file_without_a_link_changes_nothing(tmp_path: Path):
    assert cost(built(tmp_path, None)) == (25.0, 0.0)


@pytest.mark.parametrize(
    ("swap", "why"),
    [
        ({"bandwidth_gib_s": 0}, "swap bandwidth_gib_s must be above zero"),
        ({"per_copy_s": -1.0}, "swap per_copy_s must be a finite number"),
        ({"bandwith_gib_s": 3.0}, "swap: unknown bandwith_gib_s"),
    ],
)
def test_a_link_that_cannot_be_is_refused(tmp_path: Path, swap: dict, why: str):
    with pytest.raises(UserError, match=why):
        built(tmp_path, swap)
