"""What values the engine's own options may take."""

from __future__ import annotations

from typing import Any

from engine.attention.choose import NAMES
from engine.sampling.params import SamplingParams
from twin.cli.errors import UserError
from twin.cli.options import POSITIVE, SWITCH, WORD, Rule, check_rules, integer, is_number, one_of, or_null

DTYPES = ("fp32", "fp16", "bf16")
SCALE = Rule(
    lambda value: value in ("auto", "none") or (is_number(value) and 0 < value <= 1),
    "auto, none, or a share, above 0 and at most 1",
)
RULES = {
    "attention": one_of(*NAMES),
    "allow_unchecked": SWITCH,
    "engine.device": WORD,
    "engine.weights": WORD,
    "engine.dtype": one_of("auto", *DTYPES),
    "engine.threads": or_null(integer(1, 1024)),
    "engine.enforce_eager": SWITCH,
    "engine.compile": SWITCH,
    "engine.scale": SCALE,
    "engine.budget_s": POSITIVE,
    "engine.skip_idle": SWITCH,
    "engine.clock": one_of("wall", "cpu"),
    "engine.tokens": SWITCH,
    "engine.kv_scales": one_of("one", "observed"),
    "sampling.ignore_eos": SWITCH,
}
KV_DTYPES = ("auto", *DTYPES, "fp8")


def check_engine_options(config: dict[str, Any]) -> None:
    """Raises `UserError` for the first option whose value is not allowed."""
    check_rules(RULES | {"cache.kv_cache_dtype": one_of(*KV_DTYPES)}, config)


def check_clock(config: dict[str, Any], device: str, threads: int) -> None:
    """Raises `UserError` for engine.clock=cpu where other threads than the one that schedules compute."""
    if config["engine"]["clock"] == "wall":
        return
    if device != "cpu" or threads > 1 or config["scheduler"]["async_scheduling"]:
        there = f"on {device}" if device != "cpu" else f"with {threads} threads" if threads > 1 else "asynchronously"
        raise UserError(
            f"engine.clock=cpu: it is the CPU time of the one thread that schedules and computes, but steps are computed "
            f"{there}; take engine.clock=wall, or engine.device=cpu engine.threads=1 scheduler.async_scheduling=false"
        )


def sampling_params(config: dict[str, Any]) -> SamplingParams:
    """Of every request of the run. Raises `EngineError`. How many tokens come is the trace's affair."""
    return SamplingParams(**config["sampling"], max_tokens=1)
