"""What a scenario says, checked strictly: an option that does not exist is an error that names those that do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twin.core.limits import PAUSE_MODES, PREEMPTION_MODES, VLLM_RULES, Limits, Rules
from twin.core.request import Pause, check_pauses
from twin.latency.linear import LinearLatency
from twin.policy_parts import ROLES
from twin.sim.prompts import chained_keys, parse_prompt
from twin.sim.swap_link import SwapCost

CACHE = {"num_gpu_blocks", "block_size", "enable_prefix_caching", "num_cpu_blocks", "watermark", "allocator"}
SCHEDULER = {
    "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "long_prefill_token_threshold", "async_scheduling",
}  # fmt: skip
CACHE |= {name for name, section in VLLM_RULES.items() if section == "cache"}
SCHEDULER |= {name for name, section in VLLM_RULES.items() if section == "scheduler"}
LATENCY = {"base_s", "mixed_s", "per_seq_s", "per_prefill_token_s", "per_decode_token_s", "per_context_token_s"}
SWAP = {"bandwidth_gib_s", "per_copy_s"}
REQUEST = {
    "id", "arrival_s", "prompt_tokens", "prompt", "output_tokens", "max_tokens", "user", "session", "priority", "n",
    "deadline_s", "abort_s", "pauses",
}  # fmt: skip
TOP = {"cache", "scheduler", "model", "policy", "predictor", "latency", "swap", "requests", "vllm_defects"}
OPTIONS = {name: f"cache.{name}" for name in CACHE} | {name: f"scheduler.{name}" for name in SCHEDULER}
OPTIONS |= {"num_blocks": "cache.num_gpu_blocks", "num_host_blocks": "cache.num_cpu_blocks"}
OPTIONS |= {"max_model_len": "model.max_model_len"}


@dataclass
class ScenarioRequest:
    """A request as the file gives it; `tokens` are prompt token ids, or None for ids that nobody else has."""

    id: str
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    tokens: list[int] | None = None
    max_tokens: int | None = None
    user: str | None = None
    session: str | None = None
    priority: int = 0
    n: int = 1
    deadline_s: float | None = None
    abort_s: float | None = None
    pauses: tuple[Pause, ...] = ()


@dataclass
class Scenario:
    """A scenario, checked."""

    limits: Limits
    rules: Rules
    latency: LinearLatency
    requests: list[ScenarioRequest]
    policy_name: str = "fcfs"
    policy_parameters: dict[str, Any] = field(default_factory=dict)
    policy_parts: dict[str, str] = field(default_factory=dict)
    predictor: str = "none"
    predictor_parameters: dict[str, Any] = field(default_factory=dict)
    swap: SwapCost = field(default_factory=SwapCost)

    def block_keys(self) -> dict[str, list[int]]:
        """Chained keys of the full prompt blocks of each request whose token ids are given, by request id."""
        return chained_keys({r.id: r.tokens for r in self.requests if r.tokens is not None}, self.limits.block_size)


def read_scenario(content: Any, where: str) -> Scenario:
    """Check what a file says. Raises ValueError with `where` and the option."""
    top = _mapping(content, TOP, where, "a scenario")
    for needed in ("cache", "requests"):
        if needed not in top:
            raise ValueError(f"{where}: {needed} is missing")
    cache = _mapping(top["cache"], CACHE, where, "cache")
    if "num_gpu_blocks" not in cache:
        raise ValueError(f"{where}: cache.num_gpu_blocks is missing")
    scheduler = _mapping(top.get("scheduler"), SCHEDULER, where, "scheduler")
    model = _mapping(top.get("model"), {"max_model_len"}, where, "model")
    policy, parts, rules = _read_policy(top.get("policy") or {}, where)
    policy_name = policy.pop("name", "fcfs")
    latency = _mapping(top.get("latency", {"base_s": 1.0}), LATENCY, where, "latency")
    predictor = top.get("predictor") or "none"
    if not isinstance(predictor, (dict, str)):
        raise ValueError(f"{where}: predictor must be a name or a mapping, not {predictor!r}")
    predictor = dict(predictor) if isinstance(predictor, dict) else {"name": predictor}
    predictor_name = str(predictor.pop("name", "none"))
    flags = {
        name: _flag(options, name, f"{where}: {section}{name}", name == "enable_chunked_prefill")
        for options, section, name in (
            (cache, "cache.", "enable_prefix_caching"), (scheduler, "scheduler.", "enable_chunked_prefill"),
            (scheduler, "scheduler.", "async_scheduling"), (rules, "policy.", "preempt_for_seat"), (top, "", "vllm_defects"),
        )
    }  # fmt: skip
    try:
        limits = Limits(
            num_blocks=cache["num_gpu_blocks"],
            block_size=cache.get("block_size", 16),
            num_host_blocks=cache.get("num_cpu_blocks", 0),
            enable_prefix_caching=flags["enable_prefix_caching"],
            watermark=cache.get("watermark", 0.0),
            max_num_seqs=scheduler.get("max_num_seqs", 256),
            max_num_batched_tokens=scheduler.get("max_num_batched_tokens", 2048),
            enable_chunked_prefill=flags["enable_chunked_prefill"],
            long_prefill_token_threshold=scheduler.get("long_prefill_token_threshold") or 0,
            max_model_len=model.get("max_model_len", 4096),
        )
        rule = Rules(
            **rules,
            allocator=cache.get("allocator", "paged"),
            async_scheduling=flags["async_scheduling"],
            vllm_defects=flags["vllm_defects"],
            **_vllm_rules({"cache": cache, "scheduler": scheduler}, where),
        )
        step_latency = LinearLatency(**latency)
    except OverflowError as error:
        raise ValueError(f"{where}: a number is too large ({error})") from error
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        raise ValueError(f"{where}: {OPTIONS.get(name, name)} {rest}") from error
    rows = top["requests"]
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{where}: requests must be a list of at least one request")
    requests = [_read_request(row, number, where) for number, row in enumerate(rows, 1)]
    ids = [name for request in requests for name in _names(request)]
    if len(set(ids)) != len(ids):
        raise ValueError(f"{where}: two requests share the id {next(i for i in ids if ids.count(i) > 1)!r}")
    swap = _mapping(top.get("swap"), SWAP, where, "swap")
    try:
        cost = SwapCost(bytes_per_block=1 << 20, **swap)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return Scenario(
        limits, rule, step_latency, requests, str(policy_name), policy, parts, predictor_name, predictor, cost
    )  # fmt: skip


def _vllm_rules(sections: dict[str, dict[str, Any]], where: str) -> dict[str, Any]:
    """The rules in which versions of vLLM differ; those not given are 0.32's."""
    return {
        name: _flag(sections[section], name, f"{where}: {section}.{name}", default=True)
        for name, section in VLLM_RULES.items()
        if name in sections[section]
    }


def _read_policy(given: Any, where: str) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Its name and own parameters; its parts by role; the rules that go with any policy."""
    if not isinstance(given, (dict, str)):
        raise ValueError(f"{where}: policy must be a name or a mapping, not {given!r}")
    own = dict(given) if isinstance(given, dict) else {"name": given}
    parts = {role: part for role in ROLES if (part := own.pop(role, None)) is not None}
    for role, part in parts.items():
        if not isinstance(part, str):
            raise ValueError(f"{where}: policy.{role} must be a name, not {part!r}")
    rules = {"preempt_for_seat": own.pop("preempt_for_seat")} if "preempt_for_seat" in own else {}
    for role, modes in (("preemption_mode", PREEMPTION_MODES), ("pause", PAUSE_MODES)):
        if parts.get(role) in modes:
            rules[role] = parts.pop(role)
    return own, parts, rules


def _names(request: ScenarioRequest) -> list[str]:
    """By which it is known: its own id, or those of its samples."""
    return [request.id] if request.n == 1 else [f"{request.id}.{sample}" for sample in range(request.n)]


def _read_request(row: Any, number: int, where: str) -> ScenarioRequest:
    place = f"request {number}"
    row = _mapping(row, REQUEST, where, place)
    name = row.get("id", f"r{number - 1}")
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise ValueError(f"{where}: {place}: id must be a name, not {name!r}")
    name = str(name)
    place = f"{where}: request {name}"
    tokens = None
    if "prompt" in row:
        tokens = parse_prompt(row["prompt"], place)
        if "prompt_tokens" in row and row["prompt_tokens"] != len(tokens):
            raise ValueError(f"{place}: prompt has {len(tokens)} ids, prompt_tokens says {row['prompt_tokens']}")
    elif "prompt_tokens" not in row:
        raise ValueError(f"{place}: prompt_tokens (a length) or prompt (token ids) is missing")
    if "output_tokens" not in row:
        raise ValueError(f"{place}: output_tokens is missing")
    return ScenarioRequest(
        id=name,
        arrival_s=_seconds(row, "arrival_s", place) or 0.0,
        prompt_tokens=len(tokens) if tokens is not None else _count(row, "prompt_tokens", place),
        output_tokens=_count(row, "output_tokens", place),
        tokens=tokens,
        max_tokens=None if row.get("max_tokens") is None else _count(row, "max_tokens", place),
        user=None if row.get("user") is None else str(row["user"]),
        session=None if row.get("session") is None else str(row["session"]),
        priority=_count(row, "priority", place, least=None) if row.get("priority") is not None else 0,
        n=_count(row, "n", place) if row.get("n") is not None else 1,
        deadline_s=_seconds(row, "deadline_s", place),
        abort_s=_seconds(row, "abort_s", place),
        pauses=_pauses(row, place),
    )


def _pauses(row: dict[str, Any], place: str) -> tuple[Pause, ...]:
    """`[[after_tokens, seconds], [after_tokens, seconds, returned_tokens]]`."""
    given = row.get("pauses")
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError(f"{place}: pauses must be a list of [after_tokens, seconds, returned_tokens], not {given!r}")
    pauses = tuple(_pause(entry, f"{place}: pauses") for entry in given)
    check_pauses(pauses, place, row.get("n") or 1)
    return pauses


def _pause(entry: Any, place: str) -> Pause:
    if not isinstance(entry, list) or len(entry) not in (2, 3):
        raise ValueError(
            f"{place}: a pause is [after_tokens, seconds] or [after_tokens, seconds, returned_tokens], not {entry!r}"
        )
    after, seconds, returned = (*entry, 0)[:3]
    for name, value in (("after_tokens", after), ("returned_tokens", returned)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{place}: {name} must be an integer, not {value!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"{place}: seconds must be a number, not {seconds!r}")
    return after, float(seconds), returned


def _mapping(value: Any, allowed: set[str], where: str, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{where}: {what} must be a mapping, not {value!r}")
    unknown = [str(key) for key in value if key not in allowed]
    if unknown:
        raise ValueError(f"{where}: {what} has no option {unknown[0]!r}; there are {', '.join(sorted(allowed))}")
    return value


def _flag(options: dict[str, Any], name: str, option: str, default: bool) -> bool:
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{option} must be true or false, not {value!r}")
    return value


def _count(row: dict[str, Any], name: str, place: str, least: int | None = 1) -> int:
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        bound = "an integer" if least is None else f"an integer of at least {least}"
        raise ValueError(f"{place}: {name} must be {bound}, not {value!r}")
    return value


def _seconds(row: dict[str, Any], name: str, place: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value) or value < 0:
        raise ValueError(f"{place}: {name} must be a time of at least 0 s, not {value!r}")
    return float(value)
