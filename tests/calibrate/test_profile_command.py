"""twin calibrate profile=...: what it writes, what it refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.calibrate.made_up import grid, table, truth, write_profile
from tests.latency.shapes import gpu, model
from twin.calibrate.identity import conflicts, differences, names_gpu
from twin.calibrate.link import fit_link
from twin.calibrate.save import save
from twin.calibrate.steps import About, Swaps
from twin.calibrate.units import wrong_unit
from twin.cli.main import main
from twin.latency import make_latency
from twin.latency.roofline import RooflineLatency
from twin.results.atomic import OutputError


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_profile(Path("profile.csv"), grid())


def said(capsys: pytest.CaptureFixture, *words: str, status: int = 0) -> str:
    assert main(["calibrate", *words]) == status
    out, err = capsys.readouterr()
    return err if status else out


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"profile.csv"}


def test_it_writes_a_latency_file_that_a_run_can_use_a_report_and_a_picture(capsys: pytest.CaptureFixture):
    out = said(capsys, "profile=profile.csv", "to=mine.yaml")
    assert files() == {"mine.yaml", "mine.md", "mine.png"}
    content = yaml.safe_load(Path("mine.yaml").read_text())
    assert content["coefficients"]["base_s"] == 0.012 and content["range"]["sequences"] == [1, 128]
    assert content["error"]["decode"]["mape"] < 0.01 and content["error"]["decode"]["steps"] == 32
    made = make_latency("fitted", {"path": "mine.yaml"}, model(), gpu())
    assert [made.step_s(each) for each in grid()] == pytest.approx([truth(each) for each in grid()], rel=1e-3)
    for word in ("decode", "prefill", "mixed", "saturated", "MAPE", "bias", "foretold worst", "written to mine.yaml"):
        assert word in out
    report = Path("mine.md").read_text()
    assert (
        "| decode | 0.00 |" in report
        and "![residuals](mine.png)" in report
        and "twin calibrate profile=profile.csv" in report
    )
    assert Path("mine.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_same_profile_gives_the_same_bytes(capsys: pytest.CaptureFixture):
    said(capsys, "profile=profile.csv", "to=mine.yaml")
    first = {path: Path(path).read_bytes() for path in ("mine.yaml", "mine.png", "mine.md")}
    said(capsys, "profile=profile.csv", "to=mine.yaml")
    assert first == {path: Path(path).read_bytes() for path in first}


def test_a_run_with_the_file_says_how_good_it_is_and_takes_its_noise(capsys: pytest.CaptureFixture):
    draw = np.random.default_rng(0)
    write_profile(Path("profile.csv"), grid() * 3, lambda each: truth(each) * (1 + 0.03 * draw.standard_normal()))
    said(capsys, "profile=profile.csv", "to=mine.yaml", "model=llama3.1-8b", "gpu=h100")
    line = ["run", "policy=fcfs", "trace=chat", "trace.num_requests=5", "latency.path=mine.yaml", "output.figures=false"]
    line += ["output.report=false", "hydra.run.dir=out"]
    error = yaml.safe_load(Path("mine.yaml").read_text())["error"]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert f"decode {error['decode']['mape']:.1f} % ({error['decode']['bias']:+.1f}), prefill" in out
    assert main([*line, "latency.noise=true"]) == 0
    assert "with step noise" in capsys.readouterr().out


def test_what_is_added_is_in_the_file_and_said(capsys: pytest.CaptureFixture):
    out = said(capsys, "profile=profile.csv", "to=a.yaml", "calibrate.add=mixed_s:0.001,host_s:0.002,host_full_sequences:16")
    content = yaml.safe_load(Path("a.yaml").read_text())
    assert content["coefficients"]["mixed_s"] == pytest.approx(0.006) and content["coefficients"]["host_s"] == 0.002
    assert content["host_full_sequences"] == 16 and "added, not measured here: mixed_s 0.001" in out


def test_named_runs_are_held_out(capsys: pytest.CaptureFixture):
    write_profile(Path("other.csv"), grid(), lambda each: 1.1 * truth(each))
    out = said(capsys, "profile=profile.csv,other.csv", "to=mine.yaml", "holdout=other")
    error = yaml.safe_load(Path("mine.yaml").read_text())["error"]
    assert "runs held out whole: other" in out
    assert error["all"] == {
        "mape": pytest.approx(9.09),
        "bias": pytest.approx(-9.09),
        "p90": pytest.approx(9.09),
        "steps": 80,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["to=mine.yaml"], "profile=, requests=: missing; give the file to fit to"),
        (["profile=profile.csv", "requests=x", "to=mine.yaml"], "give one of them, not both"),
        (["profile=profile.csv"], "to: missing; give to=NAME.yaml"),
        (["profile=profile.csv", "to=mine.txt"], "to=mine.txt: the name must end in .yaml"),
        (["profile=profile.csv", "to=nowhere/mine.yaml"], "to=nowhere/mine.yaml: no such folder: nowhere"),
        (["profile=", "to=mine.yaml"], "profile=: empty"),
        (["profile=no.csv", "to=mine.yaml"], "no.csv: no such file or folder"),
        (["profile=profile.csv", "to=mine.yaml", "policy=fcfs"], "policy=fcfs: twin calibrate with this kind of file takes"),
        (["profile=profile.csv", "to=mine.yaml", "holdout=x"], "holdout=x: no such run; there are profile"),
        (["profile=profile.csv", "to=mine.yaml", "calibrate.force=1"], "calibrate.force=1: must be true or false"),
        (["profile=profile.csv", "to=mine.yaml", "calibrate.prior=-1"], "calibrate.prior=-1: must be a relative standard"),
        (["profile=profile.csv", "to=mine.yaml", "calibrate.prior=0.3"], "calibrate.prior: .* give both"),
        (["profile=profile.csv", "to=mine.yaml", "calibrate.add=x:1"], "no term x; there are host_s, mixed_s"),
        (["profile=profile.csv", "to=mine.yaml", "calibrate.add=host_s"], "host_s must be a number above 0"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(words: list[str], message: str, capsys: pytest.CaptureFixture):
    line = said(capsys, *words, status=2)
    assert line.count("\n") == 1 and line.startswith("twin calibrate: ")
    assert re.search(message, line)
    assert files() == set()


def test_a_prior_from_the_roofline_is_taken(capsys: pytest.CaptureFixture):
    said(capsys, "profile=profile.csv", "to=mine.yaml", "calibrate.prior=0.5", "model=llama3.1-8b", "gpu=h100")
    assert yaml.safe_load(Path("mine.yaml").read_text())["coefficients"]["base_s"] == pytest.approx(0.012, rel=0.01)


def test_a_profile_of_another_model_or_gpu_is_refused_unless_told(capsys: pytest.CaptureFixture):
    Path("profile.csv.meta.json").write_text('{"model": "qwen3-32b", "device": "cuda", "device_name": "NVIDIA A10G"}')
    line = said(capsys, "profile=profile.csv", "to=mine.yaml", "model=llama3.1-8b", "gpu=h100", status=2)
    assert "it is of model qwen3-32b, not llama3.1-8b, gpu NVIDIA A10G, not h100; calibrate.force=true" in line
    assert files() == {"profile.csv.meta.json"}
    said(capsys, "profile=profile.csv", "to=mine.yaml", "model=llama3.1-8b", "gpu=h100", "calibrate.force=true")
    assert yaml.safe_load(Path("mine.yaml").read_text())["gpu"] == "h100"
    said(capsys, "profile=profile.csv", "to=mine.yaml")  # nothing asked for: what the file says
    assert yaml.safe_load(Path("mine.yaml").read_text())["model"] == "qwen3-32b"


def test_durations_in_milliseconds_are_refused(capsys: pytest.CaptureFixture):
    write_profile(Path("profile.csv"), grid(), lambda each: 1e3 * truth(each))
    for asked in ([], ["model=llama3.1-8b", "gpu=h100"]):
        line = said(capsys, "profile=profile.csv", "to=mine.yaml", *asked, status=2)
        assert "are the durations in seconds?" in line


def test_files_of_different_models_are_not_mixed(capsys: pytest.CaptureFixture):
    write_profile(Path("other.csv"), grid())
    for name, of in (("profile", "tiny"), ("other", "qwen3-32b")):
        Path(f"{name}.csv.meta.json").write_text(f'{{"model": "{of}", "device": "cpu"}}')
    line = said(capsys, "profile=profile.csv,other.csv", "to=mine.yaml", status=2)
    assert "of different model tiny and qwen3-32b; one fit is for one of them" in line


@pytest.mark.parametrize(
    ("device", "name", "same"),
    [
        ("NVIDIA H100 80GB HBM3", "h100", True),
        ("NVIDIA A100-SXM4-80GB", "a100-80g", True),
        ("NVIDIA A100-SXM4-40GB", "a100-80g", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", True),
        ("NVIDIA GeForce RTX 4090", "rtx4090", True),
        ("cpu", "cpu", True),
        ("NVIDIA H200", "h100", False),
    ],
)
def test_what_makers_call_a_gpu_is_recognised(device: str, name: str, same: bool):
    assert names_gpu(device, name) is same


def test_dimensions_count_for_more_than_names():
    shape = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8}
    assert differences(About("my-finetune", shape), model(), None, None) == []
    told = differences(About("my-finetune", shape | {"layers": 40}), model(), None, None)
    assert told == ["model my-finetune (layers 40, not 32 of llama3.1-8b)"]
    assert differences(About(gpus=4), None, None, 2) == ["tensor_parallel_size 4, not 2"]
    assert conflicts([About("a"), About(None), About("a")]) == []


def test_the_unit_is_judged_by_shape_and_data_sheet_where_these_are_known():
    sheet = RooflineLatency(model(), gpu())
    as_measured = table(grid(), lambda each: 1.4 * sheet.step_s(each))
    assert wrong_unit(as_measured, sheet) is None and wrong_unit(as_measured, None) is None
    for factor in (1e3, 1e-3):
        assert wrong_unit(table(grid(), lambda each, factor=factor: factor * sheet.step_s(each)), sheet) is not None


def test_the_swap_link_is_told_in_bytes_and_copies(capsys: pytest.CaptureFixture):
    """20 GiB/s and 10 us a copy, beside a step of 15 ms."""
    blocks = np.array([1, 4, 16, 64, 64, 256, 256, 1024] * 3)
    copies = np.array([1, 1, 16, 1, 64, 1, 256, 1] * 3)
    seconds = 0.015 + blocks * 2**21 / (20 * 2**30) + 1e-5 * copies
    link = fit_link(Swaps(blocks, copies, seconds, 2**21))
    assert link is not None and link.bandwidth_gib_s == pytest.approx(20) and link.per_copy_s == pytest.approx(1e-5)
    assert link.mape < 1e-9
    assert fit_link(Swaps(blocks[:5], copies[:5], seconds[:5], 2**21)) is None


def test_all_files_are_written_or_none(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("before")
    with pytest.raises(OutputError, match="cannot write"):
        save({tmp_path / "a.yaml": b"after", tmp_path / "none" / "a.md": b"after"})
    assert (tmp_path / "a.yaml").read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"a.yaml", "profile.csv"}
