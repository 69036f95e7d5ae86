"""Generation for a list of prompts, without a server: for scripts, notebooks and tests.

engine = Engine(load_model("smollm2"), Limits(num_blocks=512))
for output in engine.generate([[1, 2, 3], [4, 5]], SamplingParams(max_tokens=20)):
    print(output.samples[0].tokens)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engine.attention.base import AttentionBackend
from engine.attention.choose import Wanted, attention_backend
from engine.beam_searches import BeamSearch
from engine.contents import GivenContents
from engine.device import Clock, device_for
from engine.errors import EngineError
from engine.executor import Executor
from engine.model.transformer import Transformer
from engine.runner import ModelRunner, cache_for
from engine.sampling.beam import Hypothesis
from engine.sampling.params import SamplingParams
from engine.sequences import Sequence as TokenSequence
from twin.core.limits import NO_LIMIT, Limits, Rules
from twin.core.request import Request
from twin.latency.linear import LinearLatency
from twin.policy import Policy
from twin.predictor import Predictor
from twin.sim.scenario import ScenarioTrace
from twin.sim.scenario_file import Scenario, ScenarioRequest
from twin.sim.simulation import Outcome, Setup, Simulation


@dataclass
class Sample:
    """One sequence that came out."""

    tokens: list[int]
    status: str  # finished, aborted or rejected
    reason: str | None  # stop, length, or what went wrong


@dataclass
class Output:
    """What became of one prompt: `n` samples; with beam search the `n` best hypotheses, and all that it kept, best first."""

    samples: list[Sample] = field(default_factory=list)
    hypotheses: list[Hypothesis] = field(default_factory=list)


class Engine:
    """A model with its cache, and the scheduler core with a policy."""

    def __init__(
        self,
        model: Transformer,
        limits: Limits,
        policy: Policy | None = None,
        rules: Rules | None = None,
        attention: AttentionBackend | None = None,
        kv_dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        """`attention` and `kv_dtype` default to the best for the device, and the model's type."""
        if limits.max_model_len == NO_LIMIT:
            raise EngineError(f"limits: max_model_len is missing; the model was made for {model.config.max_position} tokens")
        if limits.max_model_len > model.max_len:
            raise EngineError(f"max_model_len={limits.max_model_len}: the model was loaded for {model.max_len} tokens")
        config = model.config
        self.limits, self.policy, self.rules, self.seed = limits, policy or Policy(), rules or Rules(), seed
        kv_dtype = kv_dtype or model.dtype
        wanted = Wanted(model.device, config.head_dim, limits.block_size, kv_dtype)
        attention = attention or attention_backend("auto", wanted).backend
        self.runner = ModelRunner(model, cache_for(model, limits, kv_dtype), attention)
        self.last_run: Outcome | None = None  # what the last `generate` leaves, as a simulation does

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: SamplingParams | Sequence[SamplingParams],
        arrival_s: Sequence[float] | None = None,
        abort_s: Sequence[float | None] | None = None,
        predictor: Predictor | None = None,
        clock: Clock | None = None,
    ) -> list[Output]:
        """The outputs in the order of the prompts, which all come at once unless `arrival_s` (ascending) says otherwise.

        Time is the host's unless a `clock` says otherwise, and is not waited for when nothing is to be done.
        """
        each = [sampling] * len(prompts) if isinstance(sampling, SamplingParams) else list(sampling)
        self._check(prompts, each, arrival_s)
        contents = GivenContents(prompts, each, self.runner.model.config.vocab, self.seed)
        requests = [
            ScenarioRequest(
                str(row), 0.0 if arrival_s is None else arrival_s[row], len(prompt), params.max_tokens, list(prompt),
                params.max_tokens, n=max(params.n, params.beam_width), abort_s=None if abort_s is None else abort_s[row],
            )
            for row, (prompt, params) in enumerate(zip(prompts, each, strict=True))
        ]  # fmt: skip
        scenario = Scenario(self.limits, self.rules, LinearLatency(base_s=1.0), requests)
        gathered: dict[int, dict[Request, tuple[TokenSequence, BeamSearch | None]]] = {}
        executor = Executor(
            self.runner, contents, self.seed, self.rules.async_scheduling,
            lambda request, tokens, search: gathered.setdefault(request.index, {}).update({request: (tokens, search)}),
        )  # fmt: skip
        self.last_run = self._run(scenario, executor, predictor, clock or Clock(skip_idle=True))
        return [output_of(row, gathered.get(row, {}), self.last_run) for row in range(len(prompts))]

    def _check(
        self, prompts: Sequence[Sequence[int]], sampling: Sequence[SamplingParams], arrival_s: Sequence[float] | None
    ) -> None:
        """Raises `EngineError` for what no model could take."""
        vocab = self.runner.model.config.vocab
        if len(sampling) != len(prompts) or not prompts:
            raise EngineError(f"generate: {len(prompts)} prompts and {len(sampling)} sampling parameters")
        for row, (prompt, params) in enumerate(zip(prompts, sampling, strict=True)):
            if not prompt:
                raise EngineError(f"generate: prompt {row} is empty; it needs a token at least")
            for name, tokens in (("prompt", prompt), ("stop_token_ids of prompt", params.stop_token_ids)):
                strange = next((token for token in tokens if not 0 <= token < vocab), None)
                if strange is not None:
                    raise EngineError(f"generate: {name} {row} holds token {strange}; the model knows 0 to {vocab - 1}")
        if arrival_s is not None and (list(arrival_s) != sorted(arrival_s) or len(arrival_s) != len(prompts)):
            raise EngineError("generate: arrival_s must ascend, a time for each prompt")

    def _run(self, scenario: Scenario, executor: Executor, predictor: Predictor | None, clock: Clock) -> Outcome:
        setup = Setup(self.limits, self.policy, scenario.latency, self.rules, predictor=predictor)
        device = device_for(executor, clock)
        try:
            return Simulation(
                setup, ScenarioTrace(scenario), step_by_step=True, device=device, prepare=executor.prepare
            ).run()  # fmt: skip
        finally:
            executor.close()


def output_of(row: int, ended: dict[Request, tuple[TokenSequence, BeamSearch | None]], run: Outcome) -> Output:
    """What became of the prompt of that row; `ended` are its sequences."""
    if not ended:
        status, reason = (run.requests[name][row] for name in ("status", "reason"))
        return Output([Sample([], status, reason)])
    output = Output()
    for request in sorted(ended, key=_number):
        output.samples.append(Sample(ended[request][0].generated, request.state, request.reason))
    search = next((search for _, search in ended.values() if search is not None), None)
    if search is not None and search.hypotheses():  # the beams themselves are of no use any more
        output.hypotheses = list(search.hypotheses())
        stops, ends = search.stop_ids, output.samples[0]
        output.samples = [
            Sample(list(each.tokens), ends.status, "stop" if each.tokens[-1] in stops else ends.reason)
            for each in output.hypotheses[: search.sampling.n]
        ]
    return output


def _number(request: Request) -> int:
    """Among the samples of its prompt."""
    return request.siblings.index(request) if request.siblings else 0
