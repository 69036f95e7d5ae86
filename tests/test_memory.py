"""Memory arithmetic: parameter counts, keys and values, blocks, and what fits."""

import json

import pytest

from tests.latency.shapes import gpu, model, options
from twin.memory import from_huggingface, gpu_from, model_shape, plan_memory, read_huggingface, requests_in, usable_blocks

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama3.1-8b", 8_030_261_248),
        ("llama3-8b", 8_030_261_248),
        ("llama3.1-70b", 70_553_706_496),
        ("llama2-7b", 6_738_415_616),
        ("llama2-70b", 68_976_648_192),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen3-32b", 32_762_123_264),
        ("smollm2-135m", 134_515_008),
    ],
)
def test_parameters_are_those_of_the_published_checkpoint(name, parameters):
    assert model(name).parameters == parameters


def test_opt_13b_has_12_85_billion_parameters():
    assert model("opt-13b").parameters == pytest.approx(12.85e9, rel=1e-3)


def test_keys_and_values_of_a_token():
    """Textbook: 32 layers of 40 KV heads of 128 in bf16 take 655,360 bytes a token."""
    shape = model_shape(
        {**options("model", "llama2-7b"), "layers": 32, "hidden": 5120, "heads": 40, "kv_heads": 40, "head_dim": 128}
    )
    assert shape.kv_bytes_per_token == 655_360
    assert model("opt-13b").kv_bytes_per_token == 819_200  # PagedAttention, section 3: 800 KB a token
    assert model("llama3.1-8b").kv_bytes_per_token == 131_072
    assert model_shape(options("model", "llama3.1-8b"), kv_cache_dtype="fp8").kv_bytes_per_token == 65_536


def test_requests_in_a_budget():
    """Textbook: 53.6 GB at 0.625 MB a token and 4,096 tokens hold 20; 60 GB used to 90 instead of 40 % hold 2.25 times."""
    assert int(requests_in(53.6e9, 0.625e6, 4096)) == 20
    assert requests_in(60e9, 0.625e6, 4096, use=0.9) / requests_in(60e9, 0.625e6, 4096, use=0.4) == pytest.approx(2.25)


def test_one_block_of_the_tensor_is_not_for_requests():
    """live-03: a pool tensor of 9 blocks of 16 has 8 usable ones, 128 tokens: 129 are too many, 128 are not."""
    assert usable_blocks(9) == 8
    plan = plan_memory(model(), gpu())
    assert plan.num_blocks == plan.tensor_blocks - 1 and plan.tokens == plan.num_blocks * 16
    assert plan.concurrent(plan.tokens) == 1 and plan.concurrent(plan.tokens + 1) == 0


def test_the_plan_is_vllms_arithmetic():
    plan = plan_memory(model(), gpu(), gpu_memory_utilization=0.9)
    left = int(79.2 * GIB * 0.9) - 2 * 8_030_261_248 - plan.activation_bytes - plan.reserve_bytes
    assert plan.kv_bytes == pytest.approx(left, abs=2)
    assert plan.tensor_blocks == left // (16 * 131_072)
    assert plan.concurrent(4096) == plan.num_blocks // 256
    assert plan.runs_out(plan.concurrent(4096) + 1, 4096) and not plan.runs_out(plan.concurrent(4096), 4096)


def test_what_vllm_logged_is_met():
    """vLLM pull request 10511: Llama-3-8B on an H100: weights 14.96 GiB, activation peak 1.26 GiB. Pull request 2031:
    Llama-2-7B on an A100-80G: 7,351 blocks."""
    plan = plan_memory(model("llama3-8b"), gpu("h100"))
    assert plan.weight_bytes / GIB == pytest.approx(14.96, abs=0.005)
    assert plan.activation_bytes / GIB == pytest.approx(1.26, rel=0.1)
    older = plan_memory(model("llama2-7b"), gpu("a100-80g"), max_num_batched_tokens=4096)
    assert older.tensor_blocks == pytest.approx(7351, rel=0.02)


def test_every_term_is_printed_in_gb_and_gib():
    terms = dict(plan_memory(model(), gpu()).terms())
    assert terms["- weights"] == "16.06 GB (14.96 GiB)"
    assert terms["GPU memory"] == "85.04 GB (79.20 GiB)"
    assert terms["KV cache of a token"] == "131,072 bytes"


def test_a_model_that_does_not_fit_is_refused_with_numbers_and_advice():
    with pytest.raises(ValueError) as caught:
        plan_memory(model("llama3.1-70b"), gpu("h100"))
    message = str(caught.value)
    assert "model=llama3.1-70b does not fit gpu=h100: weights 141.11 GB (131.42 GiB)" in message and "\n" not in message
    assert "parallel.tensor_parallel_size=2" in message and "model.quantization=fp8" in message
    assert plan_memory(model("llama3.1-70b"), gpu("h100"), tensor_parallel_size=2).tokens > 0
    assert plan_memory(model("llama3.1-70b", quantization="fp8"), gpu("h100")).tokens > 0


@pytest.mark.parametrize(("name", "device"), [("qwen3-32b", "rtx4090"), ("opt-13b", "rtx4090"), ("qwen2.5-14b", "a10g")])
def test_what_is_advised_does_fit(name, device):
    with pytest.raises(ValueError) as caught:
        plan_memory(model(name), gpu(device))
    gpus = int(str(caught.value).split("parallel.tensor_parallel_size=")[1].split(",")[0])
    assert plan_memory(model(name), gpu(device), tensor_parallel_size=gpus).num_blocks > 0
    if "model.quantization=" in str(caught.value):
        quantization = str(caught.value).split("model.quantization=")[1]
        assert plan_memory(model(name, quantization=quantization), gpu(device)).num_blocks > 0


def test_a_pool_smaller_than_the_longest_request_is_warned_of():
    small = plan_memory(model(), gpu("a10g"))
    assert "fewer than one request of model.max_model_len=131,072" in (small.warning() or "")
    assert plan_memory(model(), gpu("a10g"), max_model_len=4096).warning() is None


def test_tensor_parallelism_splits_heads_until_each_gpu_has_one():
    assert plan_memory(model(), gpu(), tensor_parallel_size=4).kv_bytes_per_token == 131_072 // 4
    assert plan_memory(model(), gpu(), tensor_parallel_size=16).kv_bytes_per_token == 131_072 // 8


@pytest.mark.parametrize(
    "arguments",
    [{"gpu_memory_utilization": 0}, {"gpu_memory_utilization": 1.5}, {"block_size": 0}, {"max_num_seqs": -1}],
)
def test_values_out_of_range_are_refused_by_name(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        plan_memory(model(), gpu(), **arguments)


LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
OPT = {
    "model_type": "opt",
    "num_hidden_layers": 40,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "ffn_dim": 20480,
    "vocab_size": 50272,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
}


@pytest.mark.parametrize(("config", "name"), [(LLAMA, "llama3.1-8b"), (OPT, "opt-13b")])
def test_a_hugging_face_config_gives_the_shape_of_our_own_file(config, name):
    assert from_huggingface(config, name) == model(name)


def test_a_config_file_is_found_in_its_folder_and_named_after_it(tmp_path):
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert read_huggingface(folder).name == "my-llama"
    shape = model_shape({"path": str(folder / "config.json"), "name": None, "quantization": "awq", "max_model_len": None})
    assert shape.parameters == 8_030_261_248 and shape.quantization == "awq"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ('{"model_type": "mamba"}', "model_type is 'mamba'; llama, qwen2, qwen3, opt are understood"),
        ('{"model_type": "llama"}', "missing num_hidden_layers, hidden_size"),
    ],
)
def test_a_config_that_is_not_understood_is_refused(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_huggingface(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers must be a whole number above 0"),
        ({"kv_heads": 5}, r"heads \(32\) must be a multiple of kv_heads \(5\)"),
        ({"quantization": "int3"}, "quantization must be one of null, fp8, int8, awq, gptq, int4, not 'int3'"),
        ({"layrs": 3}, "unknown layrs; there are name, architecture"),
    ],
)
def test_a_shape_that_is_none_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        model(**change)


def test_a_gpu_needs_its_figures():
    with pytest.raises(ValueError, match="gpu: missing memory_gib"):
        gpu_from({"name": "mine", "bandwidth_gb_s": 1, "bf16_tflops": 1, "fp32_tflops": 1})
    with pytest.raises(ValueError, match="gpu h100: memory_gib must be above 0"):
        gpu_from({**options("gpu", "h100"), "memory_gib": -80})


@pytest.mark.parametrize("name", ["a100-40g", "a100-80g", "h100", "h200", "l40s", "rtx4090", "rtx-pro-6000", "a10g", "cpu"])
def test_every_gpu_serves_the_smallest_model(name):
    assert gpu(name).name == name
    assert plan_memory(model("smollm2-135m"), gpu(name)).concurrent() > 10
