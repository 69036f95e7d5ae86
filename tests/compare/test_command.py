"""`twin compare` from the command line: real runs, files, and mistakes."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from tests.compare.folders import folder, sweep_folder
from twin.cli.main import main
from twin.compare.tables import LATEX, latex

SMALL = (
    "system=textbook",
    "latency=linear",
    "latency.base_s=0.05",
    "trace=synthetic",
    "trace.arrivals=poisson(8)",
    "trace.prompt_tokens=uniform(1,60)",
    "trace.output_tokens=geometric(10)",
    "trace.num_requests=300",
    "scheduler.max_num_seqs=4",
    "output.figures=false",
    "output.report=false",
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def draw(size: int = 300) -> np.ndarray:
    return np.random.default_rng(0).exponential(1.0, size)


def run(policy: str, to: str, *words: str) -> None:
    assert main(["run", *SMALL, f"policy={policy}", "predictor=oracle", f"hydra.run.dir={to}", *words]) == 0


def complaint(capsys, *words: str) -> str:
    before = sorted(Path.cwd().rglob("*"))
    capsys.readouterr()
    assert main(["compare", *words]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    assert sorted(Path.cwd().rglob("*")) == before
    return output.err


def rows(to: str) -> list[dict[str, str]]:
    with Path(to, "comparison.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_two_policies_on_the_same_requests(capsys):
    run("fcfs", "a", "output.decisions=true")
    run("sjf", "b", "output.decisions=true")
    assert main(["compare", "a", "b", "to=c", "slo.e2e_s=2", "warmup=none"]) == 0
    printed = capsys.readouterr().out
    assert "schedules of fcfs and sjf part in step" in printed and "(decisions.jsonl.gz)" in printed
    assert "time to first token, mean (s)" in printed and "baseline: fcfs" in printed
    about = json.loads(Path("c/comparison.json").read_text())
    (scene,) = about["scenes"]
    assert list(scene["variants"]) == ["fcfs", "sjf"]
    for policy, path in (("fcfs", "a"), ("sjf", "b")):
        summary = json.loads(Path(path, "summary.json").read_text())
        for row in rows("c"):
            if row["variant"] == policy and row["figure"] in ("ttft_s_p99", "e2e_s_mean", "request_throughput"):
                assert float(row["value"]) == pytest.approx(summary[row["figure"]], rel=1e-12)
    step = about["schedules"][0]
    assert step["source"] == "decisions.jsonl.gz" and step["baseline_did"] != step["variant_did"]
    names = {path.name for path in Path("c/figures").iterdir()}
    assert names == {"cdf.png", "slo.png", "pareto.png"}


def test_identical_runs_say_so(capsys):
    run("fcfs", "a")
    run("fcfs", "b")
    assert main(["compare", "a", "b", "to=c", "output.figures=false"]) == 0
    printed = capsys.readouterr().out
    assert "every request was served at the times of a" in printed and "that of a in every step" in printed
    assert {row["verdict"] for row in rows("c") if row["variant"] == "b"} == {"equal"}
    assert not Path("c/figures").exists()


def test_a_sweep_of_seeds_from_the_command_line(capsys):
    words = ["policy=fcfs,sjf", "predictor=oracle", "seeds=2", "trace.num_requests=100"]
    assert main(["run", "-m", *SMALL, *words, "hydra/launcher=basic", "hydra.sweep.dir=s"]) == 0
    assert main(["compare", "s", "to=c", "output.figures=false"]) == 0
    (scene,) = json.loads(Path("c/comparison.json").read_text())["scenes"]
    assert scene["seeds"] == [0, 1] and list(scene["variants"]) == ["fcfs", "sjf"]
    assert "over 2 seeds" in capsys.readouterr().out


def test_curves_over_the_rates_of_a_sweep():
    # Latency 1 / (1 - rate), that of M/M/1: of the rates measured the knee is at 0.5.
    jobs = {}
    for rate in (0.25, 0.5, 0.75):
        for policy, factor in (("fcfs", 1.0), ("sjf", 0.9)):
            name = f"policy={policy},trace.rate={rate}"
            folder(
                Path("s", name), np.full(300, factor / (1 - rate)), policy, every_s=1 / rate, config={"slo": {"e2e_s": 3.0}}
            )
            jobs[name] = {"policy": policy, "trace.rate": rate}
    sweep_folder(Path("s"), jobs)
    assert main(["compare", "s", "to=c"]) == 0
    about = json.loads(Path("c/comparison.json").read_text())
    assert [scene["name"] for scene in about["scenes"]] == ["trace.rate=0.25", "trace.rate=0.5", "trace.rate=0.75"]
    assert about["knees"] == {"axis": "trace.rate", "load": {"fcfs": 0.5, "sjf": 0.5}}
    names = {path.name for path in Path("c/figures").iterdir()}
    assert {"latency_throughput.png", "goodput.png", "pareto.png", "cdf_1.png", "cdf_3.png", "slo_2.png"} == names - {
        "cdf_2.png", "slo_1.png", "slo_3.png",
    }  # fmt: skip


def test_the_same_comparison_writes_the_same_bytes():
    folder(Path("a"), draw())
    folder(Path("b"), draw() + 0.1, "sjf")
    for to in ("c", "d"):
        assert main(["compare", "a", "b", f"to={to}"]) == 0
    for path in Path("c").rglob("*.*"):
        assert path.read_bytes() == Path("d", path.relative_to("c")).read_bytes()


def test_letters_that_tex_takes_for_others_are_named():
    """In TeX's own text fonts < > | are other glyphs; the rest are commands."""
    typed = "a<b>|c&d%e_f{g}"
    told = "".join(LATEX.get(letter, letter) for letter in typed)
    assert told == r"a\textless{}b\textgreater{}\textbar{}c\&d\%e\_f\{g\}"


def test_latex_is_escaped_and_even():
    from twin.compare.compare import compare
    from twin.compare.kept import Options
    from twin.compare.traces import scenes
    from twin.compare.variants import read_variants

    variants, _ = read_variants([folder(Path("a_1"), draw()), folder(Path("b_2"), draw() + 0.1)])
    text = latex([compare(scene, Options()) for scene in scenes(variants)])
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {7}
    assert not re.search(r"(?<!\\)[%_#]", "\n".join(body)) and r"a\_1" in text


def test_user_figures_of_few_and_of_many():
    few = {"user": np.array(["ann", "bob", "eve"] * 100, dtype=object)}
    many = {"user": np.array([f"user{number % 60}" for number in range(300)], dtype=object)}
    for name, users in (("few", few), ("many", many)):
        folder(Path(f"{name}_a"), draw(), requests=users)
        folder(Path(f"{name}_b"), draw() + 0.1, "sjf", requests=users)
        assert main(["compare", f"{name}_a", f"{name}_b", f"to={name}"]) == 0
        assert Path(name, "figures/users.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", ["no folder"]),
        ("a", ["one run alone"]),
        ("a a", ["given twice"]),
        ("a nowhere", ["nowhere", "no such folder"]),
        ("a empty", ["empty", "sweep.parquet"]),
        ("a cut", ["cut", "steps.parquet", "missing"]),
        ("a torn", ["torn/requests.parquet"]),
        ("a b baseline=x", ["baseline=x", "fcfs", "sjf"]),
        ("a b warmup_requests=300", ["warmup_requests=300", "all 300 requests of fcfs"]),
        ("a b warmup_s=1e9 warmup_requests=1", ["warmup_s=1000000000.0 warmup_requests=1", "in the warm-up"]),
        ("a b confidence=95", ["confidence=95", "share"]),
        ("a b warmup=some", ["warmup=some", "mser5"]),
        ("a b slo.ttft_s=-1", ["slo.ttft_s=-1"]),
        ("a b slo.tttf_s=1", ["slo.tttf_s", "slo.ttft_s"]),
        ("a b --fast", ["--fast"]),
        ("a b to=a/config.yaml", ["to=a/config.yaml"]),
        ("a c", ["did not serve the same requests", "300 and 200 requests", "traces=different"]),
        ("oddsweep", ["oddsweep/sweep.parquet"]),
    ],
)
def test_mistakes(capsys, words, said):
    folder(Path("a"), draw())
    folder(Path("b"), draw() + 1, "sjf")
    folder(Path("c"), draw(200), "srpt")
    Path("empty").mkdir()
    (folder(Path("cut"), draw()) / "steps.parquet").unlink()
    torn = folder(Path("torn"), draw()) / "requests.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    Path("oddsweep").mkdir()
    Path("oddsweep/sweep.parquet").write_text("x")
    message = complaint(capsys, *words.split())
    assert all(part in message for part in said), message


def test_other_traces_may_be_compared_when_told(capsys):
    folder(Path("a"), draw())
    folder(Path("c"), draw(200), "srpt")
    assert main(["compare", "a", "c", "traces=different", "to=x"]) == 0
    printed = capsys.readouterr().out
    assert "nothing is paired" in printed and "Welch" in printed and "part in step" not in printed


def test_a_sweep_with_a_failed_job_compares_the_others(capsys):
    sweep = Path("s")
    for policy in ("fcfs", "sjf"):
        folder(sweep / f"policy={policy}", draw(), policy)
    jobs = {f"policy={policy}": {"policy": policy} for policy in ("fcfs", "sjf")}
    sweep_folder(sweep, jobs)
    table = parquet.read_table(sweep / "sweep.parquet")
    failed = table.slice(0, 1).to_pylist()[0] | {"job": "policy=x", "policy": "x", "status": "failed", "reason": "boom"}
    more = pyarrow.concat_tables([table, pyarrow.Table.from_pylist([failed], schema=table.schema)])
    parquet.write_table(more, sweep / "sweep.parquet")
    assert main(["compare", "s", "to=x"]) == 0
    assert "1 of 3 jobs failed and are left out" in capsys.readouterr().out


def test_help_and_the_docs_name_every_option(capsys):
    from tests.docs.pages import page
    from twin.cli.compare_options import OPTIONS

    assert main(["compare", "--help"]) == 0
    printed, documented = capsys.readouterr().out, page("compare")
    for name, (default, _, _) in OPTIONS.items():
        assert f"{name}={'null' if default is None else str(default).lower()}" in printed
        assert f"`{name}=" in documented
