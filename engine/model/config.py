"""What a model is: its dimensions and the choices of its architecture.

What this engine does not compute is refused by name: a model is run as its authors meant it, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import EngineError
from engine.model.rope_config import RopeConfig, rope_from_huggingface
from twin.memory import ModelShape

ARCHITECTURES = ("llama", "qwen2", "qwen3")
DTYPES = ("fp32", "fp16", "bf16")
HUGGINGFACE_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
QWEN3_HEAD_DIM = 128  # where a Qwen3 configuration does not say


@dataclass(frozen=True)
class ModelConfig:
    """A decoder of the Llama family; dimensions in elements."""

    name: str
    architecture: str  # llama, qwen2, qwen3
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool  # the output matrix is the embedding
    max_position: int  # positions the model was made for
    rope: RopeConfig = RopeConfig()
    rms_norm_eps: float = 1e-6
    qkv_bias: bool = False
    output_bias: bool = False  # of attention's output projection
    mlp_bias: bool = False
    qk_norm: bool = False  # queries and keys are normalized, head by head, before they turn
    dtype: str = "fp32"  # of the checkpoint: fp32, fp16, bf16
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "max_position"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise EngineError(f"model {self.name}: {field} must be a whole number above 0, not {value!r}")
        if self.architecture not in ARCHITECTURES:
            raise EngineError(f"model {self.name}: {self.architecture} is not run; {', '.join(ARCHITECTURES)} are")
        if self.dtype not in DTYPES:
            raise EngineError(f"model {self.name}: dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if not 0 < self.rms_norm_eps < 1:
            raise EngineError(f"model {self.name}: rms_norm_eps must be between 0 and 1, not {self.rms_norm_eps!r}")
        if self.heads % self.kv_heads:
            raise EngineError(f"model {self.name}: heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if self.head_dim % 2:
            raise EngineError(f"model {self.name}: head_dim ({self.head_dim}) must be even, as dimensions turn in pairs")


def from_shape(shape: ModelShape) -> ModelConfig:
    """The configuration of a shape of the simulator (`conf/model/`), for random weights."""
    if shape.architecture not in ARCHITECTURES:
        raise EngineError(
            f"model {shape.name}: the engine does not run {shape.architecture}; it runs {', '.join(ARCHITECTURES)}"
        )
    if shape.quantization:
        raise EngineError(f"model {shape.name}: the engine has no {shape.quantization} matrices; take quantization=null")
    return ModelConfig(
        name=shape.name, architecture=shape.architecture, layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate=shape.intermediate, vocab=shape.vocab,
        tied=shape.tied, max_position=shape.max_position, dtype=shape.dtype,
        qkv_bias=shape.architecture == "qwen2", qk_norm=shape.architecture == "qwen3",
    )  # fmt: skip


def from_huggingface(config: Mapping[str, Any], name: str, where: str = "config.json") -> ModelConfig:
    """The configuration from the content of a Hugging Face `config.json`; `where` names it in complaints.

    Defaults are those of the library's own configuration classes (5.x) where a file leaves a key out.
    """
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        raise EngineError(f"{where}: model_type is {kind!r}; {', '.join(ARCHITECTURES)} are understood")
    _refuse_what_is_not_computed(config, where)
    dimensions = {
        field: _whole(config, key, where)
        for field, key in (
            ("layers", "num_hidden_layers"),
            ("hidden", "hidden_size"),
            ("heads", "num_attention_heads"),
            ("intermediate", "intermediate_size"),
            ("vocab", "vocab_size"),
        )
    }
    heads = dimensions["heads"]
    own = QWEN3_HEAD_DIM if kind == "qwen3" else dimensions["hidden"] // heads
    head_dim = _whole(config, "head_dim", where, own)
    max_position = _whole(config, "max_position_embeddings", where, 2048 if kind == "llama" else 32768)
    attention_bias = bool(config.get("attention_bias")) and kind != "qwen2"
    return ModelConfig(
        name=name,
        architecture=kind,
        kv_heads=_whole(config, "num_key_value_heads", where, heads),
        head_dim=head_dim,
        tied=bool(config.get("tie_word_embeddings", False)),
        max_position=max_position,
        rope=rope_from_huggingface(config, head_dim, max_position, where),
        rms_norm_eps=_epsilon(config, where),
        qkv_bias=attention_bias or kind == "qwen2",
        output_bias=attention_bias,
        mlp_bias=bool(config.get("mlp_bias")) and kind == "llama",
        qk_norm=kind == "qwen3",
        dtype=_dtype(config, where),
        eos_token_ids=_tokens(config, "eos_token_id", where),
        bos_token_id=next(iter(_tokens(config, "bos_token_id", where)), None),
        **dimensions,
    )


def _refuse_what_is_not_computed(config: Mapping[str, Any], where: str) -> None:
    experts = [key for key in EXPERTS if config.get(key)]
    if experts:
        raise EngineError(f"{where}: {experts[0]} is {config[experts[0]]}; mixtures of experts are not run")
    for key in ("quantization_config", "compression_config"):
        if config.get(key):
            method = config[key].get("quant_method", "unnamed") if isinstance(config[key], Mapping) else config[key]
            raise EngineError(
                f"{where}: {key} ({method}): quantized checkpoints are not read; take the 16-bit one or a GGUF"
            )
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise EngineError(f"{where}: hidden_act is {activation!r}; silu alone is understood")
    if _has_sliding_window(config):
        raise EngineError(f"{where}: sliding-window attention (sliding_window {config.get('sliding_window')}) is not run")


def _has_sliding_window(config: Mapping[str, Any]) -> bool:
    if any(kind != "full_attention" for kind in config.get("layer_types") or ()):
        return True
    if not config.get("sliding_window") or not config.get("use_sliding_window", config["model_type"] == "llama"):
        return False
    # Qwen models slide from layer max_window_layers on
    return config["model_type"] == "llama" or config.get("max_window_layers", 28) < config.get("num_hidden_layers", 0)


def _whole(config: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if value is None:
        raise EngineError(f"{where}: {key} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise EngineError(f"{where}: {key} must be a whole number above 0, not {value!r}")
    return value


def _epsilon(config: Mapping[str, Any], where: str) -> float:
    value = config.get("rms_norm_eps", 1e-6)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EngineError(f"{where}: rms_norm_eps must be a number, not {value!r}")
    return float(value)


def _tokens(config: Mapping[str, Any], key: str, where: str) -> tuple[int, ...]:
    """None, one token or a list of them."""
    value = config.get(key)
    tokens = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in tokens):
        raise EngineError(f"{where}: {key} must be a token's number or a list of them, not {value!r}")
    return tuple(tokens)


def _dtype(config: Mapping[str, Any], where: str) -> str:
    given = config.get("dtype") or config.get("torch_dtype") or "float32"
    if given not in HUGGINGFACE_DTYPES:
        raise EngineError(f"{where}: dtype is {given!r}; {', '.join(HUGGINGFACE_DTYPES)} are understood")
    return HUGGINGFACE_DTYPES[given]
