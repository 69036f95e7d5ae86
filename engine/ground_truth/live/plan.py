"""What a live comparison plays: requests with the content of their prompts, and how vLLM is started."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from engine.contents import TraceContents
from engine.oracle.versions import DIFFERENCES
from engine.sampling.params import SamplingParams
from traces.trace import Trace
from traces.transforms.common import from_first_arrival
from twin.cli.compose import Composed
from twin.cli.errors import UserError
from twin.cli.job import Job, build
from twin.core.limits import VLLM_RULES, Rules
from twin.policy_parts import members_of
from twin.sim.arrivals import RequestFactory
from twin.sim.predictions import Predictions
from twin.sim.recorder import RequestTable

VLLM_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
TWIN_SCHEDULER = "engine.vllm.TwinScheduler"
KEEPS_STATE = ("on_arrival", "on_wait", "on_admit", "on_step", "on_plan", "on_preempt", "on_finish")
CONTENT_SEED = 1
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Checked; nothing is started yet."""

    job: Job  # of the first trace
    traces: tuple[Trace, ...]  # of the burst, and of each load: other requests, where the trace can give others

    @property
    def config(self) -> dict[str, Any]:
        return self.job.config


def make_plan(composed: Composed, command: str, loads: int) -> Plan:
    """Raises `UserError` for what cannot be, or cannot be played by vLLM."""
    traces, first = [], None
    for number in range(loads + 1):
        another = replace(composed, values=deepcopy(composed.values))
        another.values["seed"] += number
        job = build(another, command)
        first = first or job
        traces.append(from_first_arrival(job.trace))
    assert first is not None
    _check_system(first)
    for trace in traces:
        _check_trace(trace, first)
    return Plan(first, tuple(traces))


def _check_system(job: Job) -> None:
    config, rules = job.config, job.setup.rules
    if rules.async_scheduling:
        raise UserError(
            "scheduler.async_scheduling=true: runs can be replayed with false alone; vLLM on a CPU knows no other"
        )
    if rules.preemption_mode != "recompute" or rules.allocator != "paged":
        raise UserError("policy.preemption_mode, cache.allocator: vLLM recomputes, and its cache is paged")
    plain = Rules(**DIFFERENCES["0.32"])  # type: ignore[arg-type]
    for name, section in VLLM_RULES.items():
        if getattr(rules, name) != getattr(plain, name):
            raise UserError(f"{section}.{name}: vLLM 0.32 is compared, whose rules are those of system=vllm-0.32")
    for who, member in members_of(job.setup.policy):
        kept = next((hook for hook in KEEPS_STATE if getattr(member, hook) is not None), None)
        if kept is not None:
            raise UserError(
                f"policy={config['policy']['name']}: {who} has {kept}, and may remember what it served in a run before; "
                f"the simulator begins anew with each run, so such policies cannot be compared live"
            )
    predictor = job.setup.predictor
    if predictor is not None and predictor.on_finish is not None:
        raise UserError(
            f"predictor={config['predictor']['name']}: it learns while it serves; predictions come with requests here"
        )
    if config["model"]["architecture"] != "llama" and config["vllm"]["model"] is None:
        raise UserError(
            f"model={config['model']['name']}: random weights are made for llama's shape alone; give vllm.model=PATH"
        )
    if config["model"]["dtype"] not in VLLM_DTYPES or config["model"]["quantization"] is not None:
        raise UserError(f"model.dtype={config['model']['dtype']}: must be one of {', '.join(VLLM_DTYPES)}, not quantized")


def _check_trace(trace: Trace, job: Job) -> None:
    for column in ("n", "abort_s", "pauses", "closed", "think_s"):
        if getattr(trace, column) is not None and (column != "n" or int(trace.n.max()) > 1):  # type: ignore[union-attr]
            raise UserError(f"trace {trace.name}: it has {column}; a live comparison plays open arrivals of single requests")
    for name, prompt, output in zip(trace.ids(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True):
        why = job.setup.limits.why_never(prompt, output)
        if why is None and prompt + output > job.setup.limits.max_model_len:
            why = f"{prompt} + {output} tokens are more than max_model_len={job.setup.limits.max_model_len}"
        if why is not None:
            raise UserError(
                f"trace {trace.name}: request {name} can never be served: {why}; trace.max_prompt_tokens= and "
                f"trace.max_output_tokens= make requests shorter"
            )


def requests_of(plan: Plan, trace: Trace) -> list[Row]:
    """A row a request, as the child sends it: with its prompt, and what a policy is told."""
    limits, predictor = plan.job.setup.limits, plan.job.setup.predictor
    contents = TraceContents(trace, limits.block_size, plan.config["model"]["vocab"], SamplingParams(), CONTENT_SEED)
    factory = RequestFactory(trace, limits.block_size, False)
    predictions = None
    if predictor is not None and predictor.predicts:
        predictions = Predictions(predictor, trace, limits.max_model_len, RequestTable(len(trace)), None)
    rows = []
    for row, arrival_s in enumerate(trace.arrival_s.tolist()):
        request = factory.make(row, arrival_s)
        if predictions is not None:
            predictions.give(request)
        told = {
            "twin_predicted_output": request.predicted_output,
            "twin_user": request.user,
            "twin_session": request.session,
            "twin_within_s": None if request.deadline_s is None else request.deadline_s - arrival_s,
        }
        rows.append({
            "id": request.id, "arrival_s": arrival_s, "prompt_ids": contents.prompt(row),
            "output_tokens": int(trace.output_tokens[row]), "priority": int(request.priority),
            "predicted_output": request.predicted_output, "user": request.user, "session": request.session,
            "deadline_s": request.deadline_s,
            "extra_args": {name: value for name, value in told.items() if value is not None} or None,
        })  # fmt: skip
    return rows


def scheduler_of(config: dict[str, Any]) -> str | None:
    """The class that schedules in vLLM; None: vLLM's own."""
    if (given := config["vllm"]["scheduler_cls"]) is not None:
        return str(given)
    return None if config["policy"]["name"] == "fcfs" else TWIN_SCHEDULER


def engine_arguments(plan: Plan, model: str) -> dict[str, Any]:
    """Of vLLM's AsyncEngineArgs."""
    config, limits = plan.config, plan.job.setup.limits
    arguments = {
        "model": model,
        "dtype": VLLM_DTYPES[config["model"]["dtype"]],
        "skip_tokenizer_init": True,
        "max_model_len": limits.max_model_len,
        "enforce_eager": True,
        "block_size": limits.block_size,
        "num_gpu_blocks_override": limits.num_blocks + 1,  # and vLLM's null block
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "enable_prefix_caching": limits.enable_prefix_caching,
        "enable_chunked_prefill": limits.enable_chunked_prefill,
        "async_scheduling": False,
        "scheduler_cls": "engine.ground_truth.live.scheduler.RecordingScheduler",
        "disable_log_stats": True,
    }
    if limits.long_prefill_token_threshold:
        arguments["long_prefill_token_threshold"] = limits.long_prefill_token_threshold
    if limits.watermark:
        arguments["watermark"] = limits.watermark
    if config["vllm"]["model"] is None:
        arguments["load_format"] = "dummy"
    if scheduler_of(config) == TWIN_SCHEDULER:
        arguments["additional_config"] = {"twin": _policy(plan)}
    return arguments


def _policy(plan: Plan) -> dict[str, Any]:
    """As engine/vllm takes it."""
    given, assembly = plan.config["policy"], plan.job.policy
    chosen = {"policy": given["name"], **assembly.main.parameters}
    chosen |= {role: given[role] for role in ("admission", "victim") if given.get(role) is not None}
    if given["preempt_for_seat"]:
        chosen["preempt_for_seat"] = True
    if plan.config["policy_path"] is not None:
        chosen["policy_path"] = plan.config["policy_path"]
    return chosen


def settings(plan: Plan) -> dict[str, Any]:
    """Of a recorded run, as far as they are known before vLLM runs (docs/ground_truth.md)."""
    config, limits = plan.config, plan.job.setup.limits
    shape = config["vllm"]["model"] or f"{config['model']['name']} shape, random weights"
    return {
        "model": shape,
        "dtype": VLLM_DTYPES[config["model"]["dtype"]],
        "block_size": limits.block_size,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "max_model_len": limits.max_model_len,
        "long_prefill_token_threshold": limits.long_prefill_token_threshold,
        "enable_chunked_prefill": limits.enable_chunked_prefill,
        "watermark": limits.watermark,
        "prefix": limits.enable_prefix_caching,
        "enforce_eager": True,
        "async_scheduling": False,
        "policy": {"name": config["policy"]["name"], **plan.job.policy.main.parameters},
        "scheduler_cls": scheduler_of(config) or "vLLM's own",
        "threads": config["vllm"]["threads"],
    }


def huggingface_config(config: dict[str, Any], max_model_len: int) -> dict[str, Any]:
    """config.json of a model of this shape."""
    model = config["model"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": model["hidden"],
        "intermediate_size": model["intermediate"],
        "num_hidden_layers": model["layers"],
        "num_attention_heads": model["heads"],
        "num_key_value_heads": model["kv_heads"],
        "head_dim": model["head_dim"],
        "vocab_size": model["vocab"],
        "max_position_embeddings": max(model["max_position"], max_model_len),
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": model["tied"],
        "torch_dtype": VLLM_DTYPES[model["dtype"]],
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
