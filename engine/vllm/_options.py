"""Which policy runs in vLLM: `additional_config={"twin": {"policy": "srpt", ...}}`, else $TWIN_POLICY; and what is refused.

    policy           a policy's name, its parameters beside it: {"policy": "sjf", "size": "total"}
    policy_path      a folder of policies ($TWIN_POLICY_PATH)
    admission, victim, preempt_for_seat        as `policy.admission=...` of a run
    predictor        who predicts the requests that bring no prediction: "history", "constant(tokens=200)"

$TWIN_POLICY takes parameters in brackets: `TWIN_POLICY='sjf(size=total)'`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm.logger import init_logger

from twin.check.certificate import certificate_for
from twin.policy import Policy
from twin.policy_assembly import Assembly, assemble, parse
from twin.policy_declarations import HOOKS
from twin.predictor import Predictor
from twin.predictors_registry import find as find_predictor

SECTION, POLICY, POLICY_PATH = "twin", "TWIN_POLICY", "TWIN_POLICY_PATH"
PARTS = ("admission", "victim")
FOR_FAST_FORWARD = ("steady_steps", "steady_until", "key_steps")  # vLLM plans every step
logger = init_logger("vllm.twin")


class Refused(ValueError):
    """vLLM, as it is started, cannot carry this policy; the message says why, in one line."""


@dataclass(frozen=True)
class Twin:
    """The policy that was chosen, ready to schedule."""

    name: str
    policy: Policy
    assembly: Assembly
    preempt_for_seat: bool = False
    predictor: Predictor | None = None

    @property
    def has_hooks(self) -> bool:
        """It decides something, or wants to be told."""
        return any(getattr(self.policy, hook) is not None for hook in HOOKS if hook not in FOR_FAST_FORWARD)

    @property
    def files(self) -> frozenset[str]:
        """Where its code is."""
        return frozenset(str(part.file.file) for part in (self.assembly.main, *self.assembly.parts.values()))


def chosen(vllm_config: Any, name: str | None = None) -> Twin | None:
    """The policy that this vLLM is to run, or None; `name`: of the class engine.vllm.NAME.

    Raises `PolicyFileError` where it cannot be had, and `Refused` where it, or this configuration, cannot be carried.
    """
    given = _given(vllm_config, name)
    if given is None:
        logger.info("no policy is chosen, in additional_config or %s: vLLM schedules as it does", POLICY)
        return None
    path, predictor = given.pop("policy_path", None), given.pop("predictor", None)
    if given.pop("preemption_mode", "recompute") != "recompute":
        raise Refused("twin.preemption_mode: vLLM recomputes; it has no pool on the host to swap to")
    if given.pop("pause", None) is not None:
        raise Refused("twin.pause: vLLM knows of no pauses")
    preempt_for_seat = given.pop("preempt_for_seat", False)
    parts = {role: given.pop(role) for role in PARTS if role in given}
    policy_name = given.pop("policy")
    assembly = assemble(policy_name, given, parts, path)
    twin = Twin(policy_name, assembly.policy, assembly, bool(preempt_for_seat), _predictor(predictor, path))
    _refuse(twin, vllm_config)
    _tell(twin, path)
    return twin


def _given(vllm_config: Any, name: str | None) -> dict[str, Any] | None:
    """What is said of it, by whom it is said first: the configuration, the environment; None: nothing."""
    additional = vllm_config.additional_config
    section = additional.get(SECTION) if isinstance(additional, Mapping) else None
    if section is not None and not isinstance(section, Mapping):
        section = {"policy": section}
    given = dict(section or {})
    if name is not None and given.setdefault("policy", name) != name:
        raise Refused(f"the scheduler is engine.vllm.{name}, but additional_config says twin.policy={given['policy']}")
    if "policy" not in given and (text := os.environ.get(POLICY)):
        given["policy"], parameters = parse(POLICY, text)
        given = parameters | given
    if "policy_path" not in given and (path := os.environ.get(POLICY_PATH)):
        given["policy_path"] = path
    if "policy" not in given:
        if section:
            raise Refused(f"additional_config has twin, but no twin.policy ({', '.join(map(str, section))})")
        return None
    if not isinstance(given["policy"], str):
        raise Refused(f"twin.policy must be a policy's name, not {given['policy']!r}")
    return given


def _predictor(given: Any, path: Any) -> Predictor | None:
    if given is None:
        return None
    name, parameters = parse("twin.predictor", given)
    predictor, _ = find_predictor(name, path).build(parameters)
    if predictor.needs_length:
        raise Refused(f"twin.predictor={name}: it works on true lengths, which nobody knows here")
    return predictor if predictor.predicts else None


def _refuse(twin: Twin, vllm_config: Any) -> None:
    policy, named = twin.policy, f"policy {twin.name} cannot run in vLLM"
    of_the_policy = (
        (policy.mode is not None, "mode(): vLLM recomputes who is preempted; it neither swaps nor keeps blocks"),
        (policy.background is not None, "background(): there is no pool on the host"),
        (policy.pause is not None, "pause(): vLLM knows of no pauses"),
        (policy.reserve is not None, "reserve(): there is no contiguous allocator"),
        (policy.allocator != "paged", f"it is made for the {policy.allocator} allocator, vLLM's is paged"),
        (policy.schedule is not None, "schedule(): the whole step is put together by vLLM"),
    )
    for cannot, why in of_the_policy:
        if cannot:
            raise Refused(f"{named}: {why}")
    if vllm_config.scheduler_config.policy != "fcfs":
        words = f"--scheduling-policy {vllm_config.scheduler_config.policy}"
        raise Refused(f"{named} with {words}: leave that out, and say policy={twin.name} alone")
    of_the_configuration = (
        (vllm_config.speculative_config is not None, "speculative decoding"),
        (vllm_config.kv_transfer_config is not None, "a KV connector"),
        (vllm_config.parallel_config.pipeline_parallel_size > 1, "pipeline parallelism"),
        (vllm_config.model_config.runner_type == "pooling", "a pooling model"),
        (vllm_config.model_config.is_encoder_decoder, "an encoder-decoder model"),
    )
    for there, what in of_the_configuration:
        if there:
            raise Refused(f"{named} with {what}: what becomes of requests there is not known to it")


def _tell(twin: Twin, path: Any) -> None:
    """Who schedules, from which file; what else has the name; a missing certificate."""
    for line in twin.assembly.shadowed(path):
        logger.warning("%s", line)
    for part in (twin.assembly.main, *twin.assembly.parts.values()):
        file = part.file
        logger.info("policy %s schedules (%s, SHA-256 %s)", file.name, file.file, file.sha256)
        if certificate_for(file.file) is None:
            logger.warning(
                "policy=%s: %s has no certificate for its present content; python -m twin check policy=%s tries it out",
                file.name, file.file, file.name,
            )  # fmt: skip
