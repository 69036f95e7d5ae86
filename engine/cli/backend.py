"""The engine as what a job runs on: the job of `twin run` is built, with a model in place of the latency model."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.build import TORCH_DTYPES, Loaded, load
from engine.cli.words import users_mistakes
from engine.contents import TraceContents
from engine.device import Watch, clock_for, device_for
from engine.drift import Drift
from engine.executor import Executor
from engine.options import check_clock, check_engine_options, sampling_params
from engine.pool_size import host_blocks
from engine.runner import ModelRunner
from engine.scaling import Speed, probe, scaled, with_lengths
from engine.tokens_file import Tokens
from twin.check.certificate import certificate_for
from twin.cli.errors import UserError
from twin.cli.job import Backend, Relay
from twin.core.limits import Limits
from twin.core.request import Request
from twin.latency.fitted import FittedLatency
from twin.latency.model import LatencyModel
from twin.policy import Policy
from twin.policy_assembly import Assembly
from twin.results.folder import STEPS
from twin.sim import Setup, Simulation

if TYPE_CHECKING:
    from traces import Trace

CPU_TIME = "engine.clock=cpu: times are CPU time of the thread that computes; others' share of its core does not count"
DISTRIBUTIONS = ("torch", "transformers")


class EngineBackend(Backend):
    """Loads the model once, for all seeds of a run."""

    command = "engine run"

    def __init__(self, rate_given: bool) -> None:
        """`rate_given`: the user said how fast requests come, so they come no faster."""
        self.rate_given = rate_given
        self.loaded: Loaded | None = None
        self.executor: Executor | None = None
        self.runner: ModelRunner | None = None  # of all seeds
        self.room: tuple[int, ...] = ()  # what it was made for
        self.num_blocks: int | None = None  # of all seeds
        self.num_host_blocks: int | None = None
        self.tokens: Tokens | None = None
        self.drift: Drift | None = None  # where a latency model was fitted
        self.speed: Speed | None = None  # of all seeds, so that they are scaled alike
        self.adapted: list[str] = []

    def check(self, config: dict[str, Any], policy: Assembly) -> list[str]:
        check_engine_options(config)
        sampling = sampling_params(config)
        if sampling.beam_width > 1 and config["scheduler"]["async_scheduling"]:
            raise UserError("sampling.beam_width: beam search needs scheduler.async_scheduling=false")
        for name, size in config["parallel"].items():
            if size != 1:
                raise UserError(f"parallel.{name}={size}: the engine computes on one device; leave it at 1")
        if not config["allow_unchecked"]:
            _ask_for_certificates(policy)
        if self.loaded is None:
            self.loaded = load(config)
        check_clock(config, self.loaded.device.type, torch.get_num_threads())
        notes = self._sizes(config["cache"], config, policy)
        loaded = self.loaded
        name, dtype = loaded.model.config.name, _name(loaded.model.dtype)
        about = f"{name}, {dtype}, attention={loaded.attention.name}, {_device(loaded)}"
        clock = [CPU_TIME] if config["engine"]["clock"] == "cpu" else []
        return [f"engine: {about}", *loaded.notes, *clock, *notes]

    def _sizes(self, cache: dict[str, Any], config: dict[str, Any], policy: Assembly) -> list[str]:
        """Fills in the blocks of both pools, the same for all seeds; notes."""
        assert self.loaded is not None
        size = self.loaded.block_bytes(cache["block_size"])
        notes: list[str] = []
        if cache["num_gpu_blocks"] is None:
            if self.num_blocks is None:
                self.num_blocks, self.why_blocks = self.loaded.blocks_that_fit(config)
            cache["num_gpu_blocks"] = self.num_blocks
        if cache["num_cpu_blocks"] is None:
            if self.num_host_blocks is None:
                self.num_host_blocks, notes = host_blocks(config, size) if may_swap(config, policy.policy) else (0, [])
            cache["num_cpu_blocks"] = self.num_host_blocks
        return notes

    def step_times(self, latency: LatencyModel) -> str:
        return f"step times are measured; latency={latency.name} weighs what policy.preemption_mode=auto asks"

    def adapt(self, trace: Trace, config: dict[str, Any], limits: Limits) -> tuple[Trace, list[str]]:
        assert self.loaded is not None
        _check_seats(config, trace, limits)
        options = config["engine"]
        runner = self.make_room(limits)
        if options["scale"] == "none" or (options["scale"] == "auto" and self.loaded.device.type != "cpu"):
            return trace, []
        if options["scale"] != "auto":
            self.adapted = [f"engine.scale={options['scale']:g}: lengths x that"]
            return with_lengths(trace, options["scale"]), self.adapted
        self.speed = self.speed or probe(runner, limits)
        longest = min(limits.max_model_len, limits.num_blocks * limits.block_size)
        trace, self.adapted = scaled(trace, self.speed, options["budget_s"], self.rate_given, longest)
        return trace, self.adapted

    def make_room(self, limits: Limits) -> ModelRunner:
        """A runner whose cache has these blocks: the one that there is, if it fits."""
        assert self.loaded is not None
        room = limits.num_blocks, limits.block_size, limits.num_host_blocks, limits.max_num_seqs
        if self.runner is None or room != self.room:
            self.runner = self.executor = None  # their memory is free before more is taken
            with users_mistakes():
                self.runner, self.room = self.loaded.runner(limits), room
        return self.runner

    def simulation(self, setup: Setup, trace: Trace, config: dict[str, Any], decisions: Relay | None) -> Simulation:
        assert self.runner is not None
        sampling = sampling_params(config)
        if sampling.beam_width > 1 and trace.n is not None and (trace.n > 1).any():
            raise UserError("sampling.beam_width: the trace asks for samples of its own (column n); a search has none")
        vocab = self.runner.model.config.vocab
        contents = TraceContents(trace, setup.limits.block_size, vocab, sampling, config["seed"])
        self.tokens = Tokens() if config["engine"]["tokens"] else None
        on_end = {} if self.tokens is None else {"on_end": self.tokens.add}
        self.executor = Executor(self.runner, contents, config["seed"], setup.rules.async_scheduling, **on_end)
        if sampling.n > 1 and trace.n is None:
            trace = replace(trace, n=np.full(len(trace), sampling.n))
        device = device_for(self.executor, clock_for(config["engine"]), self.watch(setup))
        simulation = Simulation(setup, trace, True, decisions, device=device, prepare=self._prepare)
        simulation.replica.tick_mask = 0  # a step takes so long that progress and time are looked at after each
        return simulation

    def watch(self, setup: Setup) -> Watch | None:
        """Who is told of each step: whether they still take what a fitted latency model says."""
        self.drift = Drift(setup.latency, setup.latency.spread) if isinstance(setup.latency, FittedLatency) else None
        return self.drift

    def finish(self, folder: Path) -> list[str]:
        assert self.executor is not None
        self.executor.close()
        if self.tokens is not None:
            self.tokens.write(folder)
        return self.drift.notes(str(folder / STEPS)) if self.drift is not None else []

    def provenance(self) -> dict[str, Any]:
        assert self.loaded is not None
        loaded = self.loaded
        config = loaded.model.config
        return {
            "latency": {"name": "measured", "source": "each step on the engine itself"},
            "engine": {
                "model": config.name, "dtype": _name(loaded.model.dtype), "kv_cache_dtype": _name(loaded.kv_dtype),
                "attention": loaded.attention.name, "device": _device(loaded), "notes": [*loaded.notes, *self.adapted],
                "versions": {name: version(name) for name in DISTRIBUTIONS},
            }
        }  # fmt: skip

    def _prepare(self, request: Request) -> None:
        assert self.executor is not None
        self.executor.prepare(request)


def may_swap(config: dict[str, Any], policy: Policy) -> bool:
    """Whether anything could ever ask for a swap: an option, a part, or a hook of the policy's."""
    given = config["policy"]
    hooks = (policy.mode, policy.background, policy.pause, policy.schedule)
    return given["preemption_mode"] != "recompute" or given["pause"] == "swap" or any(hook is not None for hook in hooks)


def _check_seats(config: dict[str, Any], trace: Trace, limits: Limits) -> None:
    """Else every request would be rejected when it comes, and a run of them would wait for each."""
    sampling = sampling_params(config)
    name = "beam_width" if sampling.beam_width > 1 else "n"
    samples = sampling.beam_width if sampling.beam_width > 1 else sampling.n if trace.n is None else 1
    if samples > limits.max_num_seqs:
        raise UserError(
            f"sampling.{name}={samples:,}: each sample takes a seat, and scheduler.max_num_seqs={limits.max_num_seqs:,}"
        )


def _ask_for_certificates(policy: Assembly) -> None:
    """A policy that has not passed `twin check` may hang or crash a real engine."""
    for part in (policy.main, *policy.parts.values()):
        name = part.file.name
        if certificate_for(part.file.file) is None:
            raise UserError(
                f"policy={name}: {part.file.file} has no certificate for its present content; run python -m twin check "
                f"policy={name}, or say allow_unchecked=true"
            )


def _name(dtype: Any) -> str:
    return next(name for name, known in TORCH_DTYPES.items() if known == dtype)


def _device(loaded: Loaded) -> str:
    if loaded.device.type == "cuda":
        return torch.cuda.get_device_name(loaded.device)
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"
