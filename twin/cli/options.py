"""What values the options may take that belong to no other package: one line an option.

Trace, model, GPU and latency check their own; what is here would otherwise be found out in the middle of a run.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from twin.cli.errors import UserError
from twin.cli.groups import choices, flat
from twin.core.limits import MOST, VLLM_RULES


class Rule(NamedTuple):
    """What a value must be: the test, and the words for it."""

    allows: Callable[[Any], bool]
    words: str


def is_number(value: Any) -> bool:
    """An integer or a finite float; true and false are neither."""
    return type(value) in (int, float) and value - value == 0


def integer(least: int, most: int | None = None) -> Rule:
    """An integer of at least `least` and at most `most`."""
    if most is None:
        return Rule(lambda value: type(value) is int and value >= least, f"an integer of at least {least}")
    return Rule(
        lambda value: type(value) is int and least <= value <= most, f"an integer of at least {least}, at most {most:,}"
    )


def number(least: float, most: float) -> Rule:
    """A number in a range, both ends included."""
    return Rule(
        lambda value: is_number(value) and least <= value <= most, f"a number of at least {least:g}, at most {most:g}"
    )


def one_of(*names: str) -> Rule:
    """One of some words."""
    return Rule(lambda value: value in names, " or ".join(names))


def or_null(rule: Rule) -> Rule:
    """What the rule allows, or null."""
    return Rule(lambda value: value is None or rule.allows(value), f"{rule.words}, or null")


SWITCH = Rule(lambda value: type(value) is bool, "true or false")
SHARE = Rule(lambda value: is_number(value) and 0 < value <= 1, "a share, above 0 and at most 1")
SHARE_BELOW_1 = Rule(lambda value: is_number(value) and 0 <= value < 1, "a share, at least 0 and below 1")
POSITIVE = Rule(lambda value: is_number(value) and value > 0, "a number above 0")
NOT_NEGATIVE = Rule(lambda value: is_number(value) and value >= 0, "a number of at least 0")
WORD = Rule(lambda value: isinstance(value, str) and value != "", "a name")

LONGEST_S = 1e9  # 30 years: a step or a copy that takes longer is a slip, and its sums would overflow
GROUPS = ("trace", "model", "gpu", "latency")  # whose options their own packages check
RULES = {
    "policy.name": WORD,
    "policy.admission": or_null(WORD),
    "policy.victim": or_null(WORD),
    "policy.preemption_mode": WORD,
    "policy.pause": WORD,
    "policy.preempt_for_seat": SWITCH,
    "policy_path": or_null(WORD),
    "scheduler.max_num_seqs": integer(1, MOST["max_num_seqs"]),
    "scheduler.max_num_batched_tokens": integer(1, MOST["max_num_batched_tokens"]),
    "scheduler.enable_chunked_prefill": SWITCH,
    "scheduler.long_prefill_token_threshold": integer(0, MOST["max_num_batched_tokens"]),
    "scheduler.async_scheduling": SWITCH,
    **{f"{section}.{name}": SWITCH for name, section in VLLM_RULES.items()},
    "cache.block_size": integer(1, MOST["block_size"]),
    "cache.gpu_memory_utilization": SHARE,
    "cache.num_gpu_blocks": or_null(integer(1, MOST["num_blocks"])),
    "cache.swap_space_gib": number(0, 2**20),
    "cache.num_cpu_blocks": or_null(integer(0, MOST["num_host_blocks"])),
    "cache.enable_prefix_caching": SWITCH,
    "cache.kv_cache_dtype": WORD,
    "cache.watermark": SHARE_BELOW_1,
    "cache.allocator": or_null(one_of("paged", "contiguous")),
    "parallel.tensor_parallel_size": integer(1, 1024),
    "parallel.pipeline_parallel_size": integer(1, 1024),
    "swap.bandwidth_gib_s": or_null(number(1e-6, 1e9)),
    "swap.per_copy_s": number(0, LONGEST_S),
    "swap.overlap": SWITCH,
    "predictor.name": WORD,
    **{f"slo.{metric}_{kind}": or_null(POSITIVE) for metric in ("ttft", "tpot", "e2e") for kind in ("s", "p99")},
    "output.figures": SWITCH,
    "output.report": SWITCH,
    "output.timeline": SWITCH,
    "output.decisions": SWITCH,
    "output.pool_view": SWITCH,
    "simulate.step_by_step": SWITCH,
    "simulate.closed_sessions": SWITCH,
    "simulate.max_wall_s": or_null(POSITIVE),
    "seed": integer(0, 2**63 - 1),
    "seeds": integer(1, 10_000),
    "warmup_s": NOT_NEGATIVE,
    "warmup_requests": integer(0),
}


def check_options(values: dict[str, Any]) -> None:
    """Raises `UserError` for the first option whose value is not allowed, or that was deleted."""
    for group in GROUPS:
        if "name" not in (values.get(group) or {}):
            raise UserError(f"{group}: missing; it may be {', '.join(choices(group))}")
    check_rules(RULES, values)
    for name, value in flat(values).items():
        if name.startswith("latency.") and name.endswith("_s") and is_number(value) and value > LONGEST_S:
            raise UserError(f"{name}={value}: must be at most {LONGEST_S:g} seconds")


def check_rules(rules: Mapping[str, Rule], values: dict[str, Any]) -> None:
    """Raises `UserError` for the first option that breaks its rule."""
    given = flat(values)
    for name, rule in rules.items():
        if name not in given:
            raise UserError(f"{name}: missing; it must be {rule.words}")
        if not rule.allows(given[name]):
            raise UserError(f"{name}={shown(given[name])}: must be {rule.words}")


def shown(value: Any) -> str:
    """A value as one writes it on the command line."""
    if type(value) is int and abs(value) >= 10**30:
        return f"{'-' if value < 0 else ''}(a number of more than 30 digits)"  # thousands of them Python refuses to print
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
