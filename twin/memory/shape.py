"""The shape of a model: what its weights and its keys and values take."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHITECTURES = ("llama", "qwen2", "qwen3", "opt")
DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
KV_DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "fp32": 4}
# Bytes a weight in the matrices of the layers; 4-bit formats keep a 16-bit scale and a zero point for 128 weights.
QUANTIZED_BYTES = {"fp8": 1.0, "int8": 1.0, "awq": 0.52, "gptq": 0.52, "int4": 0.52}
OPT_POSITION_OFFSET = 2  # OPT's table of positions has two rows more than the model has positions


@dataclass(frozen=True)
class ModelShape:
    """Dimensions of a decoder-only transformer, in elements unless said otherwise."""

    name: str
    architecture: str  # llama (gated feed-forward), qwen2 (query, key, value biases), qwen3 (query, key norms), opt
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool  # the output matrix is the embedding
    max_position: int
    dtype: str = "bf16"
    quantization: str | None = None  # of the layers' matrices
    kv_cache_dtype: str = "auto"  # auto: as dtype

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab", "max_position"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"model {self.name}: {name} must be a whole number above 0, not {value!r}")
        choices = {
            "architecture": ARCHITECTURES,
            "dtype": tuple(DTYPE_BYTES),
            "quantization": (None, *QUANTIZED_BYTES),
            "kv_cache_dtype": ("auto", *KV_DTYPE_BYTES),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                right = ", ".join("null" if choice is None else choice for choice in allowed)
                raise ValueError(f"model {self.name}: {name} must be one of {right}, not {getattr(self, name)!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"model {self.name}: heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")

    @property
    def layer_matrix_parameters(self) -> int:
        """Weights of the matrices of all layers: projections of attention and the feed-forward part."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        matrices = 2 if self.architecture == "opt" else 3
        return self.layers * (attention + matrices * self.hidden * self.intermediate)

    @property
    def parameters(self) -> int:
        """All parameters, as a checkpoint counts them."""
        width, vectors = self.hidden, 2 * self.hidden  # two norms a layer
        final_norm = width
        if self.architecture == "qwen2":
            vectors += (self.heads + 2 * self.kv_heads) * self.head_dim
        elif self.architecture == "qwen3":
            vectors += 2 * self.head_dim
        elif self.architecture == "opt":  # norms have biases too; so have all six matrices
            vectors = 4 * width + 4 * width + self.intermediate + width
            final_norm = 2 * width
        positions = (self.max_position + OPT_POSITION_OFFSET) * width if self.architecture == "opt" else 0
        embeddings = (1 if self.tied else 2) * self.vocab * width
        return embeddings + positions + self.layer_matrix_parameters + self.layers * vectors + final_norm

    @property
    def dtype_bytes(self) -> int:
        """Bytes of an activation, and of a weight that is not quantized."""
        return DTYPE_BYTES[self.dtype]

    @property
    def weight_bytes(self) -> float:
        """Bytes of a weight in the layers' matrices."""
        return QUANTIZED_BYTES[self.quantization] if self.quantization else self.dtype_bytes

    @property
    def total_weight_bytes(self) -> int:
        """Bytes of all parameters; embeddings, output matrix and vectors are never quantized."""
        rest = self.parameters - self.layer_matrix_parameters
        return round(self.layer_matrix_parameters * self.weight_bytes) + rest * self.dtype_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values a token takes: 2 * layers * kv_heads * head_dim * bytes of an element."""
        element = self.dtype_bytes if self.kv_cache_dtype == "auto" else KV_DTYPE_BYTES[self.kv_cache_dtype]
        return 2 * self.layers * self.kv_heads * self.head_dim * element


def model_shape(options: Mapping[str, Any], kv_cache_dtype: str = "auto") -> ModelShape:
    """The shape from the options of `model`: the dimensions, or `path` to a Hugging Face `config.json`.

    `max_model_len` among them is a limit of the run, not of the shape, and is passed over.
    """
    given = {name: value for name, value in options.items() if name != "max_model_len"}
    path = given.pop("path", None)
    if path:
        shape = read_huggingface(path, given.get("name"))
        return dataclasses.replace(shape, quantization=given.get("quantization"), kv_cache_dtype=kv_cache_dtype)
    fields = [field.name for field in dataclasses.fields(ModelShape) if field.name != "kv_cache_dtype"]
    unknown = [name for name in given if name not in fields]
    missing = [name for name in fields if name not in given and name not in ("dtype", "quantization")]
    if unknown or missing:
        problem = f"unknown {', '.join(unknown)}" if unknown else f"missing {', '.join(missing)}"
        raise ValueError(f"model: {problem}; there are {', '.join(fields)}, max_model_len")
    return ModelShape(**given, kv_cache_dtype=kv_cache_dtype)


def read_huggingface(path: str | Path, name: str | None = None) -> ModelShape:
    """The shape from a Hugging Face `config.json` (or the folder that holds it) of a Llama, Qwen2, Qwen3 or OPT model."""
    path = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    if not path.is_file():
        raise ValueError(f"model.path={path}: no such file; give the config.json of a Hugging Face model")
    try:
        config = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    return from_huggingface(config, name or path.resolve().parent.name, str(path))


def from_huggingface(config: Mapping[str, Any], name: str, where: str = "config.json") -> ModelShape:
    """The shape from the content of a `config.json`."""
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        raise ValueError(f"{where}: model_type is {kind!r}; {', '.join(ARCHITECTURES)} are understood")
    feed_forward = "ffn_dim" if kind == "opt" else "intermediate_size"
    wanted = ("num_hidden_layers", "hidden_size", "num_attention_heads", feed_forward, "vocab_size")
    missing = [key for key in wanted if key not in config]
    if missing:
        raise ValueError(f"{where}: missing {', '.join(missing)}")
    heads = config["num_attention_heads"]
    dtype = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}.get(
        config.get("torch_dtype") or config.get("dtype") or "bfloat16", "bf16"
    )
    return ModelShape(
        name=name,
        architecture=kind,
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        intermediate=config[feed_forward],
        vocab=config["vocab_size"],
        tied=config.get("tie_word_embeddings", kind == "opt"),
        max_position=config.get("max_position_embeddings", 2048),
        dtype=dtype,
    )
