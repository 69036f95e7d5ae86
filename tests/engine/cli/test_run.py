"""`engine run` from command line to run folder."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
import yaml

from engine.cli.main import main
from engine.lockstep import first_difference
from tests.engine.cli.commands import PLAIN, SMALL, TIGHT, TRACE, lines, run, summary
from twin.cli.main import main as twin
from twin.results.columns import MORE_STEPS

REQUESTS = (
    "request_id arrival_s prompt_tokens output_tokens generated_tokens status reason first_scheduled_s first_token_s "
    "finish_s ttft_s tpot_s e2e_s queue_s cached_tokens preemptions swap_outs recomputed_tokens user session priority "
    "replica deadline_s"
).split()  # CONTRACT's
STEPS = (
    "replica step start_s duration_s repeat prefill_tokens decode_tokens sequences context_tokens waiting running swapped "
    "used_blocks cached_blocks free_blocks preempted swapped_in_blocks swapped_out_blocks"
).split()


def test_the_folder_holds_the_files_and_the_columns_that_a_simulated_run_has():
    run("output.figures=true", "output.report=true", "output.timeline=true", "output.decisions=true", "engine.tokens=true")
    assert twin(["run", *TRACE, *PLAIN, "hydra.run.dir=simulated"]) == 0
    found = {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}
    pictures = {name for name in found if name.startswith("figures/")}
    assert pictures and all(name.endswith(".png") for name in pictures)
    assert found - pictures == {
        "config.yaml", "summary.json", "requests.parquet", "steps.parquet", "report.html", "timeline.json.gz",
        "decisions.jsonl.gz", "tokens.jsonl.gz",
    }  # fmt: skip
    requests, steps = (pd.read_parquet(f"out/{name}.parquet") for name in ("requests", "steps"))
    assert set(requests) >= set(REQUESTS) and set(steps) == {*STEPS, *MORE_STEPS}
    assert set(requests) == set(pd.read_parquet("simulated/requests.parquet"))
    assert set(steps) == {*pd.read_parquet("simulated/steps.parquet"), *MORE_STEPS}
    assert list(summary()) == list(summary("simulated"))


def test_every_step_has_a_row_and_no_device_is_busy_for_longer_than_its_step():
    told = run("output.decisions=true", *TIGHT)
    steps = pd.read_parquet("out/steps.parquet")
    assert (steps["repeat"] == 1).all() and told["steps"] == len(steps) == len(lines("out/decisions.jsonl.gz"))
    assert (steps["device_s"] > 0)[steps["sequences"] > 0].all()
    assert (steps["device_s"] <= steps["duration_s"]).all()
    prefilled = steps["prefill_tokens"] > 0
    assert ((steps["prefill_sequences"] > 0) == prefilled).all() and ((steps["prefill_attention"] > 0) == prefilled).all()
    assert (steps["prefill_context_tokens"] >= steps["prefill_tokens"]).all()
    assert (steps["prefill_context_tokens"] <= steps["context_tokens"]).all()
    ends = steps["start_s"] + steps["duration_s"]
    assert (steps["start_s"].iloc[1:].to_numpy() >= ends.iloc[:-1].to_numpy() - 1e-12).all()  # one after the other


def test_all_requests_are_as_the_trace_says_and_nobody_ends_before_it_begins():
    told = run()
    requests = pd.read_parquet("out/requests.parquet")
    assert (told["complete"], told["requests"], told["finished"]) == (True, 12, 12)
    assert (requests["generated_tokens"] == requests["output_tokens"]).all()
    times = requests[["arrival_s", "first_scheduled_s", "first_token_s", "finish_s"]].to_numpy()
    assert (np.diff(times, axis=1) >= 0).all()


def test_config_says_everything_resolved_and_what_computed():
    run("seed=3", "cache.kv_cache_dtype=fp16", "attention=torch", "policy.victim=longest")
    config = yaml.safe_load(Path("out/config.yaml").read_text())
    assert config["seed"] == 3 and config["policy"]["victim"] == "longest" and config["cache"]["num_gpu_blocks"] == 60
    made = config["provenance"]
    assert made["command"].startswith("python -m engine run model=tiny cache.num_gpu_blocks=60")
    assert made["policy"]["file"].endswith("policies/fcfs.py") and len(made["policy"]["sha256"]) == 64
    assert {"twin", "python", "numpy"} <= set(made["versions"])
    assert made["engine"] == {
        "model": "tiny", "dtype": "fp32", "kv_cache_dtype": "fp16", "attention": "torch", "device": "cpu (1 thread)",
        "notes": made["engine"]["notes"],
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }  # fmt: skip
    assert any("its weights are random" in note for note in made["engine"]["notes"])


def test_the_terminal_says_what_computes_and_that_its_weights_are_random(capsys):
    run()
    printed = capsys.readouterr().out
    assert "12 requests read" in printed and "KV cache: 60 blocks of 16 tokens = 960 tokens" in printed
    assert "note: engine: tiny, fp32, attention=" in printed and "time to first token" in printed
    assert "note: model=tiny: its weights are random" in printed and "written to out" in printed


@pytest.mark.parametrize("asynchronous", ["false", "true"])
@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_the_simulator_decides_alike_when_it_is_given_the_recorded_steps(mode, asynchronous):
    shared = [
        *TIGHT,
        f"scheduler.async_scheduling={asynchronous}",
        f"policy.preemption_mode={mode}",
        "cache.num_cpu_blocks=20",
    ]
    told = run(*shared, "output.decisions=true")
    assert told["preemptions"] and (told["swap_preemptions"] > 0) == (mode == "swap")
    replayed = ["latency=replay", "latency.path=out/steps.parquet", "system=engine", "swap.bandwidth_gib_s=null"]
    words = [*TRACE, *PLAIN, "model=tiny", *replayed, *shared, "output.decisions=true", "hydra.run.dir=simulated"]
    assert twin(["run", *words]) == 0
    engine, simulator = (lines(f"{folder}/decisions.jsonl.gz") for folder in ("out", "simulated"))
    assert first_difference(engine, simulator) is None, str(first_difference(engine, simulator))


def test_a_run_is_a_trace_for_the_next():
    """What was scaled to the machine of the day can be simulated, too: its requests are a trace file."""
    run("engine.scale=auto")
    words = ["trace=file", "trace.path=out/requests.parquet", "model=tiny", *PLAIN, "hydra.run.dir=simulated"]
    assert twin(["run", *words]) == 0
    ours, theirs = (pd.read_parquet(f"{folder}/requests.parquet") for folder in ("out", "simulated"))
    for column in ("prompt_tokens", "output_tokens"):
        assert ours[column].tolist() == theirs[column].tolist()
    assert (ours["arrival_s"] - ours["arrival_s"][0]).tolist() == pytest.approx(theirs["arrival_s"].tolist())


def test_repetitions_load_the_model_once_and_scale_their_traces_alike(monkeypatch):
    import engine.cli.backend as backend

    counts = {"load": 0, "probe": 0}
    for name in counts:
        plain = getattr(backend, name)

        def counted(*arguments, name=name, plain=plain):
            counts[name] += 1
            return plain(*arguments)

        monkeypatch.setattr(backend, name, counted)
    together = run("seed=5", "seeds=2", "engine.scale=auto")
    each = [summary(f"out/seed={seed}") for seed in (5, 6)]
    assert counts == {"load": 1, "probe": 1}
    assert together["ttft_s_mean"] == pytest.approx(sum(one["ttft_s_mean"] for one in each) / 2)
    assert (together["seeds"], together["complete"]) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        "policy=srpt predictor=oracle",
        "policy=vtc",
        "policy=priority trace.priority=uniform(0,2)",
        "policy=orca policy.reserve=pow2 predictor=oracle",
        "policy=static cache.num_gpu_blocks=600",
        "trace.prefix_tokens=32 trace.prefix_groups=2",
        "system=vllm",
        "scheduler.max_num_batched_tokens=16",
        "trace.arrivals=closed(3)",
    ],
)
def test_other_policies_and_workloads(words):
    told = run(*words.split())
    assert (told["complete"], told["finished"]) == (True, 12)


def test_pauses_are_waited_for_and_their_answers_are_context():
    Path("pauses.csv").write_text("arrival_s,prompt_tokens,output_tokens,pauses\n0,10,6,2:0.5:5\n0,10,6,\n")
    words = [*SMALL, "trace=file", "trace.path=pauses.csv", "engine.tokens=true", "hydra.run.dir=out"]
    words = [word for word in words if not word.startswith("trace.") or word.startswith("trace.path")]
    for pause in ("recompute", "swap", "keep"):
        assert main(["run", *words, f"policy.pause={pause}"]) == 0
        waited, plain = pd.read_parquet("out/requests.parquet")["e2e_s"]
        assert waited > 0.5 > plain
        assert [len(line["tokens"]) for line in lines("out/tokens.jsonl.gz")] == [6 + 5, 6]


def test_a_request_that_is_too_long_is_rejected_with_the_reason_and_the_others_are_served(capsys):
    told = run("trace.prompt_tokens=choice(16:0.5,5000:0.5)", "trace.num_requests=20", "cache.num_gpu_blocks=400")
    requests = pd.read_parquet("out/requests.parquet")
    long = requests["prompt_tokens"] == 5000
    assert told["rejected"] == long.sum() > 0 and told["finished"] == (~long).sum() > 0
    assert set(requests["reason"][long]) == {"prompt of 5000 tokens leaves no room in max_model_len=4096"}
    assert "requests were rejected, first" in capsys.readouterr().out


def test_more_context_than_the_model_was_made_for_is_a_warning(capsys):
    told = run("model.max_model_len=8192", "trace.prompt_tokens=5000", "trace.num_requests=1", "cache.num_gpu_blocks=400")
    assert told["finished"] == 1 and "model.max_model_len=8,192" in capsys.readouterr().out


def test_a_limit_of_real_time_ends_a_run_with_what_is_done():
    assert main(["run", *SMALL, "simulate.max_wall_s=1e-9", "hydra.run.dir=out"]) == 0
    told = json.loads(Path("out/summary.json").read_text())
    assert (told["complete"], told["unfinished"]) == (False, 12)


def test_an_unchecked_policy_runs_when_it_is_allowed_to(failing):
    assert run("policy=failing", "policy.after=100000", "allow_unchecked=true")["finished"] == 12
