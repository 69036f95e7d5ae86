"""Models by name, and the shipped fits."""

import json
import sys

import pytest
import yaml

from tests.latency.shapes import gpu, model, options
from tests.shared import shared
from twin.core.batch import Features
from twin.latency import make_latency
from twin.latency.make import fitted_folder

STEP = Features(1, 0, 1, 500)


def test_the_default_comes_from_measured_steps_and_says_from_where():
    notes: list[str] = []
    default = make_latency("fitted", options("latency", "fitted"), model(), gpu(), notes=notes)
    about = default.describe()
    assert notes == [] and about["name"] == "fitted"
    assert "aiconfigurator" in about["source"] and set(about["error"]) >= {"decode", "prefill", "mixed"}


def test_without_measured_steps_the_roofline_steps_in_and_says_so():
    notes: list[str] = []
    made = make_latency("fitted", {}, model("qwen2.5-7b"), gpu("l40s"), notes=notes)
    assert made.describe()["name"] == "roofline"
    assert "no measured steps are shipped for model=qwen2.5-7b gpu=l40s" in notes[0]


@pytest.mark.parametrize(
    ("change", "gpus", "why"), [({"quantization": "fp8"}, 1, "quantization"), ({}, 2, "parallel.tensor_parallel_size=2")]
)
def test_a_fit_is_not_used_for_what_it_did_not_measure(change, gpus, why):
    notes: list[str] = []
    made = make_latency("fitted", {}, model(**change), gpu(), tensor_parallel_size=gpus, notes=notes)
    assert made.describe()["name"] == "roofline" and why in notes[0]


def test_a_file_of_ones_own_is_used(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"coefficients": {"base_s": 0.5}, "range": {}, "source": "a stopwatch"}))
    made = make_latency("fitted", {"path": str(path)}, model("tiny"), gpu("cpu"))
    assert made.step_s(STEP) == 0.5
    path.write_text("coefficients: [")
    with pytest.raises(ValueError, match="mine.yaml: not YAML"):
        make_latency("fitted", {"path": str(path)}, model("tiny"), gpu("cpu"))


def test_a_missing_file_names_the_shipped_ones():
    with pytest.raises(ValueError, match="latency.path=none.yaml: no such file; .*llama3.1-8b_h100"):
        make_latency("fitted", {"path": "none.yaml"}, model(), gpu())
    assert make_latency("fitted", {"path": "llama3.1-8b_h200"}, model(), gpu()).describe()["gpu"] == "h200"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("fast", {}, "latency=fast: no such latency model; there are linear, roofline, fitted, table, replay"),
        ("linear", {"base": 1}, "latency=linear: unknown base; there are base_s, mixed_s"),
        ("roofline", {"efficiency": 1}, "latency=roofline: unknown efficiency; there are compute_efficiency"),
        ("table", {}, "latency=table: missing path"),
        ("replay", {"path": None}, "latency=replay: missing path"),
        ("fitted", {"file": "x"}, "latency=fitted: unknown file; there are path"),
    ],
)
def test_wrong_names_are_refused_with_the_right_ones(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        make_latency(name, parameters, model(), gpu())


def test_the_groups_options_are_those_the_models_take():
    made = make_latency("linear", {**options("latency", "linear"), "base_s": 1.0}, model(), gpu())
    assert made.step_s(STEP) == 1.0
    assert make_latency("roofline", options("latency", "roofline"), model(), gpu()).step_s(STEP) == pytest.approx(
        make_latency("roofline", {}, model(), gpu()).step_s(STEP)
    )


def test_naming_a_linear_model_imports_nothing_heavy():
    import subprocess

    code = "import sys; from twin.latency import make_latency; make_latency('linear', {'base_s': 1.0}, None, None); "
    code += "print([name for name in ('numpy', 'pandas', 'yaml', 'hydra') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(fitted_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_fit_states_range_error_and_source_and_errs_little(path):
    content = yaml.safe_load(path.read_text())
    gpus = content.get("tensor_parallel_size", 1)
    several = f"_tp{gpus}" if gpus > 1 else ""
    assert path.stem == f"{content['model']}_{content['gpu']}{several}" and content["source"] and content["licence"]
    regions = {"decode", "mixed", "prefill"} & content["error"].keys()
    assert regions >= {"decode", "prefill"} and ("mixed" in regions or "steps with both" in content["not_known"])
    whole_model = content["model"] == "llama2-70b"  # a table whose repeats alone scatter by as much
    for region in regions:
        assert 0 < content["error"][region]["mape"] < (15 if whole_model else 5) and content["error"][region]["steps"] > 5
    notes: list[str] = []
    made = make_latency("fitted", {}, model(content["model"]), gpu(content["gpu"]), gpus, notes)
    assert made.describe()["name"] == "fitted" and not notes and 0 < made.describe()["spread"] < 0.2
    assert made.ranges()["sequences"][1] >= STEP.sequences


def test_the_cpu_fit_repeats_recorded_steps_of_vllm():
    """A run of 200 requests that the fit has not seen; the steps between requests' arrivals, with vLLM's own gaps."""
    import pandas

    steps = pandas.read_csv(shared("profiles", "vllm_cpu", "load06_repeat1", "steps.csv"))
    fitted = make_latency("fitted", {}, model("smollm2-135m"), gpu("cpu"))
    total = 0.0
    for row in steps.itertuples():
        of_prefill = int(row.context_tokens - row.decode_context)
        counts = (int(row.sequences), int(row.prefill_tokens), int(row.decode_tokens), int(row.context_tokens))
        total += fitted.step_s(Features(*counts, of_prefill, float(row.prefill_ctx), int(row.prefill_seqs)))
    assert total == pytest.approx((steps.end_s - steps.start_s).sum(), rel=0.04)


def test_the_real_gpu_run_is_met_by_the_fit_and_missed_by_kernels_alone():
    """vLLM 0.19 on an RTX PRO 6000: what bench/fit_default_latency.py found, in the file for that GPU."""
    error = yaml.safe_load((fitted_folder() / "llama3.1-8b_rtx-pro-6000.yaml").read_text())["error"]
    assert error["real_run_fitted"]["tpot_mape"] < 2 < error["real_run_kernels"]["tpot_mape"]
    assert abs(error["real_run_fitted"]["ttft_mean"]) < 3
    run = shared("profiles", "llmservingsim", "bench_vllm", "RTXPRO6000", "Llama-3.1-8B", "vllm", "requests.jsonl")
    requests = [json.loads(line) for line in run.read_text().splitlines()]
    # the last request to end ran alone for its last second, at 87 tokens/s (timeseries.csv)
    last = max(requests, key=lambda request: request["last_token_ts"])
    fitted = make_latency("fitted", {}, model(), gpu("rtx-pro-6000"))
    assert fitted.decode_step_s(1, last["input_toks"] + last["output_toks"]) == pytest.approx(1 / 87.0, rel=0.03)


def test_a_file_fitted_for_another_machine_is_noted():
    notes: list[str] = []
    make_latency("fitted", {"path": "smollm2-135m_cpu"}, model("llama3.1-8b"), gpu("h100"), 1, notes)
    assert notes == [
        "latency.path: fitted for model=smollm2-135m, and the run has model=llama3.1-8b",
        "latency.path: fitted for gpu=cpu, and the run has gpu=h100",
    ]
    make_latency("fitted", {"path": "llama3.1-8b_h100"}, model("llama3-8b"), gpu("h100"), 1, notes := [])
    assert notes == []
