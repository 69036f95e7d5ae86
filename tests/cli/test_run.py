"""`twin run` from command line to run folder, and everything that may go wrong in between."""

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import SMALL, complaint, run
from twin.cli.main import main

FAILING = '''from twin.policy import Policy


class Failing(Policy):
    """Works for a while."""

    def __init__(self, after: int = 10, interrupt: bool = False):
        self.calls, self.after, self.interrupt = 0, after, interrupt

    def order(self, request, view):
        self.calls += 1
        if self.calls > self.after:
            raise KeyboardInterrupt if self.interrupt else RuntimeError("boom")
        return request.arrival_s
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def failing(own_folder: Path) -> None:
    (own_folder / "policies").mkdir()
    (own_folder / "policies" / "failing.py").write_text(FAILING)


def test_a_run_by_hand():
    # One request every 10 s, alone: a step of 1 s for the prompt and the first token, two more for the others.
    summary = run()
    assert (summary["complete"], summary["requests"], summary["finished"]) == (True, 20, 20)
    assert (summary["ttft_s_mean"], summary["ttft_s_p99"]) == pytest.approx((1.0, 1.0))
    assert (summary["tpot_s_mean"], summary["e2e_s_mean"]) == pytest.approx((1.0, 3.0))
    assert (summary["duration_s"], summary["steps"]) == (pytest.approx(19 * 10 + 3), 60)


def test_the_folder_holds_what_the_contract_says():
    run("output.figures=true", "output.report=true", "output.timeline=true", "output.decisions=true")
    found = {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}
    always = {"config.yaml", "summary.json", "requests.parquet", "steps.parquet"}
    assert found >= always | {"report.html", "timeline.json.gz", "decisions.jsonl.gz"}
    assert any(name.startswith("figures/") and name.endswith(".png") for name in found)
    with gzip.open("out/decisions.jsonl.gz", "rt") as lines:
        steps = [json.loads(line) for line in lines]
    assert len(steps) == 60 and steps[0]["scheduled"] == {"0": 16} and steps[0]["step"] == 1


def test_config_says_everything_resolved_and_who_scheduled():
    run("seed=3", "policy.victim=longest")
    config = yaml.safe_load(Path("out/config.yaml").read_text())
    assert config["seed"] == 3 and config["policy"]["victim"] == "longest"
    assert config["cache"]["allocator"] == "paged" and config["cache"]["num_gpu_blocks"] > 1000
    made = config["provenance"]
    assert made["policy"]["file"].endswith("policies/fcfs.py") and len(made["policy"]["sha256"]) == 64
    assert made["policy"]["class"] and {"twin", "python", "numpy"} <= set(made["versions"])
    assert made["command"].startswith("python -m twin run system=textbook latency=linear")


def test_same_seed_same_bytes_step_by_step_too():
    words = ["trace.arrivals=poisson(2)", "trace.output_tokens=geometric(20)", "latency.base_s=0.1"]
    run(*words, folder="a")
    run(*words, folder="b")
    run(*words, "simulate.step_by_step=true", folder="c")
    run(*words, "seed=1", folder="d")
    a, b, c, d = (Path(name, "requests.parquet").read_bytes() for name in "abcd")
    assert a == b == c != d


def test_the_summary_the_memory_and_the_trace_are_on_the_terminal(capsys):
    run()
    printed = capsys.readouterr().out
    assert "20 requests read" in printed and "KV cache: 27,867 blocks of 16 tokens" in printed
    assert "time to first token" in printed and "written to out" in printed


def test_the_default_folder_is_named_after_the_time_and_never_shared():
    for _ in range(2):
        assert main(["run", *SMALL]) == 0
    assert len(list(Path("outputs").glob("20*-*-*/*-*-*/summary.json"))) == 2


def test_a_second_run_into_a_named_folder_leaves_nothing_of_the_first():
    run("output.decisions=true", "output.report=true")
    run()
    assert not Path("out/decisions.jsonl.gz").exists() and not Path("out/report.html").exists()


def test_a_request_larger_than_the_pool_is_rejected_and_the_others_are_served():
    words = ["trace.prompt_tokens=choice(16:0.5,999:0.5)", "trace.num_requests=200", "cache.num_gpu_blocks=20"]
    summary = run(*words)
    assert summary["rejected"] > 50 and summary["finished"] == 200 - summary["rejected"]


def test_an_slo_counts_under_either_name():
    assert run("slo.ttft_s=1.1")["slo_attainment"] == run("slo.ttft_p99=1.1")["slo_attainment"] == 1.0
    assert run("slo.ttft_s=9", "slo.ttft_p99=0.9")["slo_attainment"] == 0.0
    assert run()["slo_attainment"] is None


def test_ctrl_c_saves_what_is_done(failing, capsys):
    words = ["policy=failing", "policy.interrupt=true", "hydra.run.dir=out", "output.decisions=true"]
    assert main(["run", *SMALL, *words]) == 130
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["complete"] is False and 0 < summary["finished"] < 20
    assert summary["finished"] + summary["unfinished"] == 20
    assert "interrupted" in capsys.readouterr().err
    with gzip.open("out/decisions.jsonl.gz", "rt") as lines:
        assert json.loads(list(lines)[-1])["step"] > 0


def test_a_policy_that_raises_is_one_message_and_what_is_done_is_saved(failing, capsys):
    assert main(["run", *SMALL, "policy=failing", "hydra.run.dir=out"]) == 1
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["complete"] is False and 0 < summary["finished"] < 20
    (line,) = capsys.readouterr().err.splitlines()
    assert "policy Failing" in line and ".py:13 raised RuntimeError: boom" in line and "Traceback" not in line


def test_a_limit_of_real_time_ends_a_run_with_what_is_done(failing):
    assert main(["run", *SMALL, "simulate.max_wall_s=1e-9", "hydra.run.dir=out", "trace.num_requests=20000"]) == 0
    assert json.loads(Path("out/summary.json").read_text())["complete"] is False


def test_repetitions_have_intervals_and_their_own_folders():
    words = ["trace.arrivals=poisson(1)", "latency.base_s=0.1", "seed=5", "seeds=3"]
    together = run(*words)
    each = [json.loads(Path(f"out/seed={seed}/summary.json").read_text()) for seed in (5, 6, 7)]
    means = [summary["ttft_s_mean"] for summary in each]
    assert together["ttft_s_mean"] == pytest.approx(sum(means) / 3) and together["ttft_s_mean_ci95"] > 0
    assert (together["seeds"], together["complete"]) == (3, True)
    alone = run(*words[:-2], "seed=6", folder="alone")
    assert alone["ttft_s_mean"] == means[1]


def test_an_unwritable_folder_is_told_before_the_simulation(capsys, own_folder):
    (own_folder / "file").write_text("")
    line = complaint(capsys, *SMALL, "hydra.run.dir=file/out")
    assert "hydra.run.dir=file/out" in line and "not a directory" in line


def test_a_full_disk_is_one_line_and_nothing_half_written(own_folder):
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # bytes a file

    words = [*SMALL, "trace.num_requests=2000", "hydra.run.dir=out"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "twin", "run", *words],
        capture_output=True,
        text=True,
        preexec_fn=little_room,
        env=environment,
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "hydra.run.dir=out" in done.stderr and "too large" in done.stderr
    assert not Path("out").exists()


def test_a_warm_up_that_leaves_nothing_is_noted(capsys):
    assert run("warmup_s=1e6")["requests"] == 0
    assert "note: warmup_s=1000000.0: all 20 requests are in the warm-up" in capsys.readouterr().out


def test_nothing_heavy_is_imported_before_the_first_event():
    code = (
        "import sys; from twin.sim import Simulation; from twin.cli.main import main\n"
        "def run(*_): print(sorted({'pandas', 'pyarrow', 'matplotlib', 'rich', 'scipy'} & set(sys.modules))); sys.exit()\n"
        "Simulation.run = run\n"
        f"main({['run', *SMALL]})"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("policy=fcsf", ["policy=fcsf", "did you mean fcfs", "priority"]),
        ("policy.alpha=1", ["policy.alpha", "policy=fcfs"]),
        ("trace=file", ["trace.path"]),
        ("trace=file trace.path=nowhere.csv", ["nowhere.csv", "no such file"]),
        ("trace=file trace.path=bad.csv", ["bad.csv", "3"]),
        ("trace.rate=-1", ["trace.rate", "-1"]),
        ("trace.num_requests=-3", ["trace.num_requests", "-3"]),
        ("trace.num_requests=many", ["trace.num_requests", "many"]),
        ("trace=synthetic trace.arrivals=poison(8)", ["trace.arrivals=poison(8)", "poisson"]),
        ("trace=synthetic trace.arrivals=poisson(-8)", ["trace.arrivals=poisson(-8)"]),
        ("model=llama3.1-70b", ["model=llama3.1-70b does not fit gpu=h100", "tensor_parallel_size"]),
        ("model=llama3.1-7b", ["model=llama3.1-7b", "did you mean llama3.1-", "llama3.1-8b"]),
        ("model.max_model_len=0", ["model.max_model_len=0"]),
        ("gpu.memory_gib=abc", ["memory_gib", "abc"]),
        ("latency=linear", ["latency=linear", "base_s"]),
        ("latency=linear latency.base_s=-1", ["base_s", "-1"]),
        ("latency=table latency.path=nowhere", ["nowhere"]),
        ("latency.path=nowhere", ["latency.path=nowhere"]),
        ("policy.victim=most_remaining predictor=none", ["policy.victim=most_remaining", "predictor"]),
        ("policy.victim=fcfs", ["policy.victim=fcfs", "victim()"]),
        ("policy.victim=lsat", ["policy.victim=lsat", "did you mean last", "longest"]),
        ("policy.victim=last,longest", ["policy.victim=last,longest", "sweep"]),
        ("policy.victim=last(", ["policy.victim=last(", "name(parameter=value, ...)"]),
        ("policy.victim=", ["policy.victim=", "a name"]),
        ("policy.admission=last(alpha=1)", ["alpha", "policy.admission=last", "it has none"]),
        ("policy.preemption_mode=swop", ["policy.preemption_mode=swop", "recompute, swap, auto, keep", "mode"]),
        ("policy.preemption_mode=last", ["policy.preemption_mode=last", "mode()"]),
        ("policy.preempt_for_seat=true", ["preempt_for_seat"]),
        ("policy_path=nowhere", ["policy_path=nowhere"]),
        ("cache.allocator=contiguous cache.enable_prefix_caching=true", ["cache.enable_prefix_caching"]),
        ("parallel.pipeline_parallel_size=2", ["parallel.pipeline_parallel_size"]),
        ("parallel.tensor_parallel_size=3", ["parallel.tensor_parallel_size=3", "32 attention heads", "1, 2, 4, 8, 16, 32"]),
        ("parallel.tensor_parallel_size=64", ["parallel.tensor_parallel_size=64", "1, 2, 4, 8, 16, 32"]),
        (
            "cache.swap_space_gib=1e6 cache.num_gpu_blocks=9 cache.block_size=1 model=tiny",
            ["cache.swap_space_gib=1000000.0", "at most 134,217,728"],
        ),
        ("gpu.memory_gib=1e300", ["gpu.memory_gib=1e+300", "at most 1,048,576"]),
        ("gpu.memory_gib=1e6 cache.block_size=1 model=tiny", ["gpu=h100", "at most 134,217,728"]),
        ("model.max_model_len=99999999999999", ["model.max_model_len=99999999999999", "at most"]),
        ("~seeds", ["seeds", "missing"]),
        ("~model.max_model_len", ["model.max_model_len", "null already"]),
        ("policy_path=nowhere --help", ["policy_path=nowhere"]),
        ("seeds=0 --help", ["seeds=0"]),
        ("seeds=0", ["seeds=0", "at least 1"]),
        ("seeds=2 policy=fcsf", ["policy=fcsf"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(capsys, own_folder, words, names):
    (own_folder / "bad.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,ten,5\n")
    line = complaint(capsys, *words.split())
    for name in names:
        assert name in line


def test_closed_sessions_wait_for_the_answer_and_think(tmp_path, capsys):
    """cli-05: the second turn comes two seconds after the first has ended, whatever time the trace recorded for it."""
    from twin.results.load import load_run

    trace = tmp_path / "sessions.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens,session,think_s\n0,10,3,a,0\n1,10,3,a,2\n")
    run = tmp_path / "run"
    words = ["run", "policy=fcfs", "trace=file", f"trace.path={trace}", "system=textbook", "latency=linear",
             "latency.base_s=1.0", "output.figures=false", "output.report=false", f"hydra.run.dir={run}"]  # fmt: skip
    assert main([*words, "simulate.closed_sessions=true"]) == 0
    assert load_run(run).requests["arrival_s"].tolist() == [0.0, 5.0]
    assert main(words) == 0
    assert load_run(run).requests["arrival_s"].tolist() == [0.0, 1.0]
