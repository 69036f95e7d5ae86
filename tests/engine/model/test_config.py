"""Configurations: what is read, and what is refused by name."""

import dataclasses

import pytest
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

from engine.errors import EngineError
from engine.model.config import from_huggingface, from_shape
from engine.model.tensor_shapes import parameter_count
from tests.engine.model.test_rope import MINIMAL
from twin.memory import ModelShape

SHAPE = ModelShape("s", "llama", 3, 64, 8, 2, 24, 100, 301, True, 512, "fp16")


@pytest.mark.parametrize("configuration", (LlamaConfig, Qwen2Config, Qwen3Config))
def test_a_configuration_without_choices_is_the_one_of_transformers(configuration):
    """Keys that a file leaves out mean what transformers' own classes say."""
    reference = configuration()
    given = {key: value for key, value in reference.to_dict().items() if key in GIVEN}
    config = from_huggingface(given, "x")
    assert config.layers == reference.num_hidden_layers
    assert config.head_dim == (
        getattr(reference, "head_dim", None) or reference.hidden_size // reference.num_attention_heads
    )
    assert config.kv_heads == (reference.num_key_value_heads or reference.num_attention_heads)
    assert config.max_position == reference.max_position_embeddings
    assert config.rms_norm_eps == reference.rms_norm_eps
    assert config.tied == reference.tie_word_embeddings
    assert config.rope.theta == reference.rope_parameters["rope_theta"]


GIVEN = ("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")


def test_biases_and_norms_by_architecture():
    for kind, bias, chosen in (
        ("llama", False, (False, False, False, False)),
        ("llama", True, (True, True, True, False)),
        ("qwen2", False, (True, False, False, False)),  # Qwen2 has them whatever its file says
        ("qwen2", True, (True, False, False, False)),
        ("qwen3", False, (False, False, False, True)),
        ("qwen3", True, (True, True, False, True)),
    ):
        config = from_huggingface({**MINIMAL, "model_type": kind, "attention_bias": bias, "mlp_bias": bias}, "x")
        assert (config.qkv_bias, config.output_bias, config.mlp_bias, config.qk_norm) == chosen, (kind, bias)


def test_tokens_that_end_a_text():
    def read(**change):
        config = from_huggingface({**MINIMAL, **change}, "x")
        return config.eos_token_ids, config.bos_token_id

    assert read() == ((), None)
    assert read(eos_token_id=2, bos_token_id=1) == ((2,), 1)
    assert read(eos_token_id=[5, 0]) == ((5, 0), None)


@pytest.mark.parametrize("spelling", ("dtype", "torch_dtype"))
def test_dtypes(spelling):
    for given, meant in (("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16"), (None, "fp32")):
        assert from_huggingface({**MINIMAL, spelling: given}, "x").dtype == meant


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "mixtral"}, "model_type is 'mixtral'; llama, qwen2, qwen3 are understood"),
        ({"model_type": None}, "model_type is None; llama, qwen2, qwen3 are understood"),
        ({"num_experts": 8}, "num_experts is 8; mixtures of experts are not run"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config (awq): quantized checkpoints are not read"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; silu alone is understood"),
        ({"sliding_window": 4096}, "sliding-window attention (sliding_window 4096) is not run"),
        (
            {"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": True, "max_window_layers": 0},
            "sliding-window attention (sliding_window 16) is not run",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window attention"),
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"hidden_size": "48"}, "hidden_size must be a whole number above 0, not '48'"),
        ({"intermediate_size": -1}, "intermediate_size must be a whole number above 0, not -1"),
        ({"num_attention_heads": True}, "num_attention_heads must be a whole number above 0, not True"),
        ({"num_key_value_heads": 3}, "heads (4) must be a multiple of kv_heads (3)"),
        ({"head_dim": 7}, "head_dim (7) must be even"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number, not 'small'"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps must be between 0 and 1, not -1e-06"),
        ({"eos_token_id": "</s>"}, "eos_token_id must be a token's number or a list of them, not '</s>'"),
        ({"dtype": "float8_e4m3fn"}, "dtype is 'float8_e4m3fn'; float32, float16, bfloat16 are understood"),
    ],
)
def test_what_is_not_understood_is_refused(change, complaint):
    with pytest.raises(EngineError) as refusal:
        from_huggingface({**MINIMAL, **change}, "x", "config.json")
    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_sliding_window_that_is_not_in_use_is_no_obstacle():
    """Qwen files keep the numbers beside use_sliding_window false, or start the windows after the last layer."""
    qwen = {**MINIMAL, "model_type": "qwen2", "sliding_window": 4096}
    for change in ({"use_sliding_window": False}, {}, {"use_sliding_window": True, "max_window_layers": 28}):
        assert from_huggingface({**qwen, **change}, "x").architecture == "qwen2"
    assert from_huggingface({**MINIMAL, "sliding_window": None}, "x").architecture == "llama"


@pytest.mark.parametrize("tied", (True, False))
@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
def test_a_shape_has_as_many_parameters_here_as_in_the_simulator(architecture, tied):
    shape = dataclasses.replace(SHAPE, architecture=architecture, tied=tied)
    config = from_shape(shape)
    assert parameter_count(config) == shape.parameters
    for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "max_position", "dtype"):
        assert getattr(config, field) == getattr(shape, field)


def test_shapes_that_the_engine_does_not_run():
    with pytest.raises(EngineError, match="^model s: the engine does not run opt; it runs llama, qwen2, qwen3$"):
        from_shape(dataclasses.replace(SHAPE, architecture="opt"))
    with pytest.raises(EngineError, match="^model s: the engine has no awq matrices; take quantization=null$"):
        from_shape(dataclasses.replace(SHAPE, quantization="awq"))
