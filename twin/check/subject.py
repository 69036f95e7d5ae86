"""The policy that is checked: how it is found, made anew for each scenario, and what systems it was made for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from twin.policy import Policy
from twin.policy_assembly import Assembly, assemble
from twin.policy_parts import members_of
from twin.predictor import Predictor
from twin.predictors_registry import find as find_predictor
from twin.sim.scenario_file import Scenario, read_scenario

LONGEST_CONTIGUOUS = 200  # tokens: a contiguous allocator sets aside model.max_model_len for each
SMALLEST = {"cache": {"num_gpu_blocks": 1}, "requests": [{"prompt_tokens": 1, "output_tokens": 1}]}


@dataclass
class Subject:
    """A policy by its name, options and predictor: plain values, so that another process can make it too."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)  # `policy.*` as given: parameters, parts, rules
    policy_path: str | None = None
    predictor: dict[str, Any] = field(default_factory=lambda: {"name": "none"})  # and its parameters, as given

    def scenario(self, content: dict[str, Any]) -> tuple[Scenario, Policy]:
        """The scenario, and the policy just made for it; raises ValueError where one of them cannot be had."""
        scenario, assembly = self._assembled(content)
        policy = assembly.policy
        if policy.allocator == "contiguous":
            scenario = replace(scenario, rules=replace(scenario.rules, allocator="contiguous"))
        return scenario, policy

    def content(self, content: dict[str, Any]) -> dict[str, Any]:
        """The scenario as a file has to say it for this policy."""
        policy = {"name": self.name, **content.get("policy", {}), **self.options}
        return {**content, "policy": policy, "predictor": self.predictor}

    def adapted(self, content: dict[str, Any]) -> dict[str, Any]:
        """The same system without what the policy's allocator cannot do: shared blocks, parallel samples."""
        if self.assembly.policy.allocator != "contiguous":
            return content
        cache = {**content["cache"], "enable_prefix_caching": False}
        tokens = cache["num_gpu_blocks"] * cache.get("block_size", 16)
        longest = min(content.get("model", {}).get("max_model_len", tokens), LONGEST_CONTIGUOUS, tokens)
        requests = [{key: value for key, value in row.items() if key != "n"} for row in content["requests"]]
        return {**content, "cache": cache, "requests": requests, "model": {"max_model_len": longest}}

    def make_predictor(self) -> Predictor:
        """The predictor, just made; raises `PolicyFileError`."""
        parameters = {key: value for key, value in self.predictor.items() if key != "name"}
        return find_predictor(self.predictor["name"], self.policy_path).build(parameters)[0]

    @cached_property
    def assembly(self) -> Assembly:
        """The policy with its parts, made once, to be asked what it is; raises `PolicyFileError`."""
        return self._assembled(SMALLEST)[1]

    @cached_property
    def needs_prediction(self) -> list[str]:
        """The members that cannot do without, in words."""
        return [who for who, member in members_of(self.assembly.policy) if member.needs_prediction]

    @cached_property
    def files(self) -> frozenset[str]:
        """The sources of the policy and its parts: of their classes and of those that these derive from."""
        parts = (self.assembly.main, *self.assembly.parts.values())
        kinds = [kind for part in parts for kind in part.file.policy.__mro__ if kind not in (Policy, object)]
        modules = [sys.modules.get(kind.__module__) for kind in kinds]
        files = {str(part.file.file) for part in parts}
        return frozenset(files | {str(path) for module in modules if (path := getattr(module, "__file__", None))})

    def _assembled(self, content: dict[str, Any]) -> tuple[Scenario, Assembly]:
        scenario = read_scenario(self.content(content), "scenario")
        return scenario, assemble(self.name, scenario.policy_parameters, scenario.policy_parts, self.policy_path)
