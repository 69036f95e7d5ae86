"""From a composed configuration to a simulation that is ready to start. Nothing is written and nothing simulated here.

Each part is built by the package that it belongs to; what that says of a bad value becomes one line that names the
option.
"""

import gc
import platform
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin import __version__, predictors_registry
from twin.cli import signals
from twin.cli.compose import Composed
from twin.cli.errors import UserError, naming
from twin.cli.machine import Machine, block_bytes, machine, resolve_sizes
from twin.cli.objectives import not_judged
from twin.cli.options import check_options
from twin.cli.oracle import with_predictor
from twin.cli.swap_options import take_link
from twin.cli.traits import missing_traits
from twin.policy_assembly import Assembly, assemble, names_part
from twin.policy_parameters import OF_EVERY_POLICY
from twin.policy_parts import ROLES

if TYPE_CHECKING:
    from traces import Trace
    from twin.core.limits import Limits
    from twin.latency.model import LatencyModel
    from twin.policies_registry import PolicyFile
    from twin.policy import Policy
    from twin.predictor import Predictor
    from twin.predictors_registry import PredictorFile
    from twin.sim import Setup, Simulation

MANY = 100_000  # requests
REGIONS = ("decode", "prefill", "mixed", "saturated")  # of steps, by which a calibration states its errors
DISTRIBUTIONS = ("numpy", "simpy", "hydra-core", "pandas", "pyarrow")  # whose versions a result depends on


class Relay:
    """A callable whose receiver is set later: a simulation is built before the file is opened that it writes to.

    An interruption waits until a step is written: half of one would spoil the file.
    """

    receiver: Callable[[dict[str, Any]], None]

    def __call__(self, step: dict[str, Any]) -> None:
        with signals.held():
            self.receiver(step)


class Backend:
    """What a job runs on: the simulator. An engine has sizes of its own, and steps that are computed."""

    command = "twin run"
    why_blocks: str = "as given"  # how cache.num_gpu_blocks comes about, where it is set before the memory calculation

    def check(self, config: dict[str, Any], policy: Assembly) -> list[str]:
        """Look at the options and the policy before anything else is built; notes for the user."""
        return []

    def adapt(self, trace: "Trace", config: dict[str, Any], limits: "Limits") -> "tuple[Trace, list[str]]":
        """The trace as this back end plays it, and how it differs, in words."""
        return trace, []

    def simulation(self, setup: "Setup", trace: "Trace", config: dict[str, Any], decisions: Relay | None) -> "Simulation":
        from twin.sim import Simulation

        return Simulation(setup, trace, config["simulate"]["step_by_step"], decisions)

    def finish(self, folder: Path) -> list[str]:
        """The simulation is over, however it ended: files of its own, and notes for the user."""
        return []

    def step_times(self, latency: "LatencyModel") -> str:
        """Where the durations of steps come from, a line."""
        return told(latency)

    def provenance(self) -> dict[str, Any]:
        """What of a result is owed to it."""
        return {}


@dataclass
class Job:
    """One run, ready to start."""

    config: dict[str, Any]  # everything resolved, as `config.yaml` shows it
    setup: "Setup"
    simulation: "Simulation"
    decisions: Relay | None
    trace: "Trace"
    policy: Assembly
    predictor: "PredictorFile"
    command: str
    lines: list[str]  # to print before it starts: memory, trace, latency, notes
    backend: Backend

    @property
    def slo(self) -> dict[str, float | None]:
        """The limits that a single request must keep, seconds; the tighter where one was given under both names."""
        given = self.config["slo"]
        limits = {}
        for metric in ("ttft", "tpot", "e2e"):
            named = [limit for kind in ("s", "p99") if (limit := given[f"{metric}_{kind}"]) is not None]
            limits[f"{metric}_s"] = min(named, default=None)
        return limits

    def fresh_setup(self) -> "Setup":
        """The same system with a policy and a predictor that have served nobody yet, for one more simulation."""
        policy, (_, predictor) = _policy(self.config).policy, _predictor(self.config)
        return replace(self.setup, policy=policy, predictor=predictor)

    def forget_simulation(self) -> None:
        """Its record is taken: what it kept of every request goes, before more is made of that."""
        del self.simulation
        if len(self.trace) > MANY:
            gc.collect()  # its parts know each other

    def config_with_provenance(self, warnings: list[str]) -> dict[str, Any]:
        """The configuration and who made the results: command, versions, policy file, trace, latency model."""
        from importlib.metadata import version

        from twin.results.save import provenance

        report = self.trace.report
        versions = {"twin": __version__, "python": platform.python_version()}
        return self.config | {
            "provenance": provenance(
                command=self.command,
                policy=self.policy.provenance(),
                predictor=self.predictor.provenance(),
                versions=versions | {name: version(name) for name in DISTRIBUTIONS},
                trace={
                    "source": report.source,
                    "read": report.read,
                    "kept": len(self.trace),
                    "dropped": report.dropped,
                    "notes": report.notes,
                },
                latency=self.setup.latency.describe(),
                warnings=warnings,
            )
            | self.backend.provenance()
        }


def build(composed: Composed, command: str, backend: Backend | None = None, found: "PolicyFile | None" = None) -> Job:
    """Builds every part; raises `UserError` for the first that cannot be.

    `found`: the policy, where it is not to be looked for by its name.
    """
    from twin.core.limits import VLLM_RULES, Limits, Rules
    from twin.sim import Setup, SwapCost
    from twin.sim.predictions import PredictorError

    backend = backend or Backend()
    config = composed.values
    check_options(config)
    assembly = _policy(config, found)
    policy = assembly.policy
    with naming("policy"):
        notes = assembly.shadowed(config["policy_path"])
    config, told = with_predictor(config, policy, composed)
    notes += told
    notes += not_judged(config["slo"])
    notes += _allocator(config, policy, composed)
    notes += backend.check(config, assembly)
    served = machine(config)
    lines = resolve_sizes(config, served, backend.why_blocks)
    latency = _latency(config, served, notes)
    notes += take_link(config, latency, composed)
    predictor_file, predictor = _predictor(config)
    notes += predictor_file.shadowed(config["policy_path"])
    trace = _trace(config)
    notes += missing_traits(assembly, trace)
    cache, scheduler, rules, swap = (config[section] for section in ("cache", "scheduler", "policy", "swap"))
    with naming("scheduler"):
        limits = Limits(
            num_blocks=cache["num_gpu_blocks"],
            block_size=cache["block_size"],
            num_host_blocks=cache["num_cpu_blocks"],
            max_num_seqs=scheduler["max_num_seqs"],
            max_num_batched_tokens=scheduler["max_num_batched_tokens"],
            long_prefill_token_threshold=scheduler["long_prefill_token_threshold"],
            max_model_len=served.max_model_len,
            enable_chunked_prefill=scheduler["enable_chunked_prefill"],
            enable_prefix_caching=cache["enable_prefix_caching"],
            watermark=cache["watermark"],
        )
    with naming("trace"):
        trace, adapted = backend.adapt(trace, config, limits)
    notes += adapted
    if config["output"]["pool_view"]:
        _check_pool_view(limits)
    decisions = Relay() if config["output"]["decisions"] or config["output"]["pool_view"] else None
    mode, pause = ("recompute" if names_part(role, rules[role]) else rules[role] for role in ("preemption_mode", "pause"))
    with naming("policy"):
        setup = Setup(
            limits=limits,
            policy=policy,
            latency=latency,
            rules=Rules(
                preemption_mode=mode,
                preempt_for_seat=rules["preempt_for_seat"],
                allocator=cache["allocator"],
                async_scheduling=scheduler["async_scheduling"],
                pause=pause,
                **{name: config[section][name] for name, section in VLLM_RULES.items()},
            ),
            swap=SwapCost(block_bytes(config, served), swap["bandwidth_gib_s"], swap["per_copy_s"], swap["overlap"]),
            predictor=predictor,
            closed_sessions=config["simulate"]["closed_sessions"],
        )
        try:
            simulation = backend.simulation(setup, trace, config, decisions)
        except PredictorError as error:
            raise UserError(str(error)) from error
    lines = [*trace.report.lines(), *lines, backend.step_times(latency), *(f"note: {note}" for note in notes)]
    return Job(config, setup, simulation, decisions, trace, assembly, predictor_file, command, lines, backend)


def command_line(command: str, overrides: Iterable[str], program: str = "twin") -> str:
    """The command as one can paste it into a shell again."""
    return shlex.join(["python", "-m", program, command, *overrides])


def _check_pool_view(limits: "Limits") -> None:
    from twin.cli.pool_view import too_large

    if (why := too_large(limits)) is not None:
        raise UserError(f"output.pool_view=true: {why}")


def _policy(config: dict[str, Any], found: "PolicyFile | None" = None) -> Assembly:
    """The policy and its parts; its parameters' defaults are filled into the configuration."""
    given = config["policy"]
    own = {key: value for key, value in given.items() if key not in OF_EVERY_POLICY}
    with naming("policy"):
        assembly = assemble(given["name"], own, {role: given.get(role) for role in ROLES}, config["policy_path"], found)
    given |= assembly.main.parameters
    return assembly


def _allocator(config: dict[str, Any], policy: "Policy", composed: Composed) -> list[str]:
    """Fills in cache.allocator as the policy asks; a contiguous one turns off what the preset had on and it cannot do."""
    cache = config["cache"]
    if cache["allocator"] is None:
        cache["allocator"] = policy.allocator or "paged"
    if cache["allocator"] == "contiguous" and cache["enable_prefix_caching"]:
        if composed.given("cache.enable_prefix_caching"):
            raise UserError(
                "cache.enable_prefix_caching=true: a contiguous allocator cannot share blocks; "
                "choose cache.allocator=paged or leave prefix caching off"
            )
        cache["enable_prefix_caching"] = False
        return ["cache.allocator=contiguous shares no blocks: prefix caching is off"]
    return []


def _latency(config: dict[str, Any], served: Machine, notes: list[str]) -> "LatencyModel":
    from twin.latency.make import make_latency

    options = dict(config["latency"])
    name = str(options.pop("name", None))
    with naming(f"latency={name}"):
        return make_latency(name, options, served.model, served.gpu, served.gpus, notes, config["seed"])


def told(latency: "LatencyModel") -> str:
    """Which model or calibration, and how good it is: the errors of held-out steps by region."""
    about = latency.describe()
    words = [about["name"], *([str(about["source"]).partition(";")[0]] if about.get("source") else [])]
    line = f"step latency: {', '.join(words)}"
    errors = [
        f"{region} {found['mape']:.1f} % ({found['bias']:+.1f})"
        for region, found in (about.get("error") or {}).items()
        if region in REGIONS and isinstance(found, dict) and {"mape", "bias"} <= found.keys()
    ]
    if errors:
        line += f"; off in held-out steps, mean (signed): {', '.join(errors)}"
    return line + ("; with step noise" if about.get("noise") else "")


def _trace(config: dict[str, Any]) -> "Trace":
    from traces import open_trace

    with naming("trace"):
        return open_trace(**config["trace"], seed=config["seed"])


def _predictor(config: dict[str, Any]) -> "tuple[PredictorFile, Predictor]":
    """The predictor, and where it is from; its parameters' defaults are filled into the configuration."""
    given = config["predictor"]
    with naming("predictor"):
        found = predictors_registry.find(given["name"], config["policy_path"])
        predictor, values = found.build({key: value for key, value in given.items() if key != "name"}, config["seed"])
    given |= values
    return found, predictor
