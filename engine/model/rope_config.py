"""How a model turns queries and keys by position: the numbers, and how configuration files spell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import EngineError

REQUIRED = {  # of each kind, beside rope_theta
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
}
OPTIONAL = {
    "llama3": ("original_max_position_embeddings",),
    "yarn": (
        "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate",
    ),
    "longrope": ("original_max_position_embeddings", "attention_factor", "factor"),
}  # fmt: skip
ABOUT_THE_DICT = ("rope_type", "type", "rope_theta", "partial_rotary_factor", "finetuned")


@dataclass(frozen=True)
class RopeConfig:
    """Rotary position embedding: its base, and how it is stretched past the positions the model was trained on."""

    theta: float = 10000.0
    kind: str = "default"  # default, linear, dynamic (NTK), llama3, yarn, longrope
    factor: float = 1.0
    original_max_position: int = 0  # positions of the training; llama3, yarn, longrope
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    truncate: bool = True  # yarn: bounds of its ramp are whole dimensions
    mscale: float | None = None  # yarn
    mscale_all_dim: float | None = None  # yarn
    attention_factor: float | None = None  # on cosine and sine (yarn, longrope); None: the paper's formula
    short_factor: tuple[float, ...] = ()  # longrope: divisors of the frequencies [head_dim / 2]
    long_factor: tuple[float, ...] = ()  # longrope: the same where contexts exceed the original


def rope_from_huggingface(config: Mapping[str, Any], head_dim: int, max_position: int, where: str) -> RopeConfig:
    """The parameters under `rope_parameters` (new spelling) or `rope_scaling` with `rope_theta` beside it (old one)."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise EngineError(f"{where}: rope_parameters must be a mapping, not {given!r}")
    for key in ("partial_rotary_factor", "rotary_pct"):
        fraction = given.get(key, config.get(key))
        if fraction not in (None, 1, 1.0):
            raise EngineError(f"{where}: {key} is {fraction}; only models that turn the whole head are understood")
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in REQUIRED:
        raise EngineError(f"{where}: rope_type is {kind!r}; {', '.join(REQUIRED)} are understood")
    _check_keys(given, kind, where)
    numbers: dict[str, Any] = {"kind": kind, "theta": given.get("rope_theta") or config.get("rope_theta") or 10000.0}
    for key in (*REQUIRED[kind], *OPTIONAL.get(kind, ())):
        if given.get(key) is not None:
            numbers[key] = given[key]
    original = numbers.pop("original_max_position_embeddings", None)
    if kind in ("llama3", "yarn", "longrope"):
        numbers["original_max_position"] = config.get("original_max_position_embeddings") or original or max_position
    if kind == "longrope":
        numbers.setdefault("factor", max_position / numbers["original_max_position"])
    return RopeConfig(**_checked(numbers, head_dim, where))


def _check_keys(given: Mapping[str, Any], kind: str, where: str) -> None:
    missing = [key for key in REQUIRED[kind] if given.get(key) is None]
    if missing:
        raise EngineError(f"{where}: rope_type {kind} wants {', '.join(missing)}")
    known = (*ABOUT_THE_DICT, *REQUIRED[kind], *OPTIONAL.get(kind, ()))
    # Files keep the original length beside kinds that do not use it.
    unknown = [key for key in given if key not in (*known, "original_max_position_embeddings")]
    if unknown:
        raise EngineError(f"{where}: rope_type {kind} has {', '.join(unknown)}, which this engine does not understand")


def _checked(numbers: dict[str, Any], head_dim: int, where: str) -> dict[str, Any]:
    for key, value in numbers.items():
        if key in ("kind", "truncate"):
            continue
        if key in ("short_factor", "long_factor"):
            if not isinstance(value, (list, tuple)) or len(value) != head_dim // 2 or not all(map(_positive, value)):
                raise EngineError(f"{where}: {key} must be {head_dim // 2} numbers above 0 (half of head_dim)")
            numbers[key] = tuple(map(float, value))
        elif not _positive(value):
            raise EngineError(f"{where}: {key} of the rotary embedding must be a number above 0, not {value!r}")
    return numbers


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
