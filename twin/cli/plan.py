"""`twin plan`: what memory a model takes on a GPU, how many requests fit, and what would make more fit."""

import json
from typing import TYPE_CHECKING, Any

from twin.cli import streams
from twin.cli.compose import compose
from twin.cli.errors import UserError
from twin.cli.helptext import help_text, wants_help

if TYPE_CHECKING:
    from twin.cli.machine import Machine
    from twin.memory import MemoryPlan
    from twin.memory.changes import Change

DOES = """Calculates by vLLM's arithmetic what a model takes of a GPU's memory: weights, KV bytes of a token, KV blocks, how
many requests run at once, whether memory or seats run out first, and what would make more fit (docs/plan.md). With
plan.kv_budget_gb=N no GPU is looked at. `--json` prints the numbers for programs."""
EXAMPLE = "python -m twin plan model=qwen2.5-14b gpu=a100-80g model.max_model_len=8192"
SECTIONS = ("plan", "model", "gpu", "parallel", "cache", "scheduler")
ROOT = "plan"  # the file of conf/ that says what it is made of
LENGTHS = (1024, 4096, 16384, 65536)  # tokens of a request, prompt and output, for the table


def main(words: list[str]) -> int:
    """Prints the plan; returns the exit status: 2 for a model that does not fit, after what would."""
    if wants_help(words):
        options = [word for word in words if word != "--json"]
        print(help_text("plan", DOES, EXAMPLE, options, SECTIONS, root=ROOT), end="")
        return 0
    from twin.cli.machine import machine, memory_plan
    from twin.cli.options import check_options
    from twin.cli.plan_budget import budget_plan, check_plan_options

    composed = compose([word for word in words if word != "--json"], root=ROOT)
    check_options(composed.values)
    check_plan_options(composed.values)
    if composed.values["plan"]["kv_budget_gb"] or composed.values["plan"]["kv_budget_gib"]:
        return budget_plan(composed.values, "--json" in words)
    served = machine(composed.values)
    asked = _Asked(composed.values, served)
    try:
        plan = memory_plan(composed.values, served)
    except UserError as error:
        return _does_not_fit(served, asked, "--json" in words, str(error))
    if "--json" in words:
        print(json.dumps(numbers(served, plan, asked), indent=2))
    else:
        _print_plan(served, plan, asked)
    return 0


class _Asked:
    """What is asked of the memory: so many requests of so many tokens; and what else could be had."""

    def __init__(self, config: dict[str, Any], served: "Machine") -> None:
        from twin.cli.machine import plan_arguments
        from twin.memory.changes import changes

        given = config["plan"]
        self.seats = config["scheduler"]["max_num_seqs"]
        self.requests = given["requests"] or self.seats
        self.tokens = given["request_tokens"] or served.max_model_len
        self.given_tokens = given["request_tokens"]
        arguments = plan_arguments(config, served)
        self.changes = changes(served.model, served.gpu, arguments, self.requests, self.tokens)


def numbers(served: "Machine", plan: "MemoryPlan", asked: _Asked) -> dict[str, Any]:
    """The plan as flat keys and, as `would_fit`, what each change brings; bytes and blocks are those of one GPU."""
    lengths = _lengths(plan, asked)
    return {
        "model": served.model.name,
        "gpu": served.gpu.name,
        "gpus": served.gpus,
        "parameters": served.model.parameters,
        "memory_bytes": plan.memory_bytes,
        "usable_bytes": plan.usable_bytes,
        "weight_bytes": plan.weight_bytes,
        "activation_bytes": plan.activation_bytes,
        "reserve_bytes": plan.reserve_bytes,
        "kv_bytes": plan.kv_bytes,
        "kv_bytes_per_token": plan.kv_bytes_per_token,
        "block_size": plan.block_size,
        "block_bytes": plan.block_bytes,
        "num_gpu_blocks": plan.num_blocks,
        "kv_tokens": plan.tokens,
        "max_model_len": plan.max_model_len,
        "max_num_seqs": asked.seats,
        "concurrent_requests": {str(length): plan.concurrent(length) for length in lengths},
        "runs_out": {str(length): plan.runs_out(asked.seats, length) for length in lengths},
        "requests": asked.requests,
        "request_tokens": asked.tokens,
        "fits": not plan.runs_out(asked.requests, asked.tokens),
        "would_fit": [_change_numbers(change, asked) for change in asked.changes],
        "warnings": _warnings(served, plan, asked),
    }


def _change_numbers(change: "Change", asked: _Asked) -> dict[str, Any]:
    tokens = change.options.get("model.max_model_len", asked.tokens)
    return {
        "options": dict(change.options),
        "num_gpu_blocks": change.plan.num_blocks if change.plan else None,
        "concurrent_requests": change.concurrent(tokens),
        "fits": change.concurrent(tokens) >= asked.requests,
    }


def _does_not_fit(served: "Machine", asked: _Asked, as_json: bool, why: str) -> int:
    """The model leaves no room for a KV cache: what would, then the line that says so."""
    if as_json:
        found = {"model": served.model.name, "gpu": served.gpu.name, "gpus": served.gpus, "fits": False, "why": why}
        print(json.dumps(found | {"would_fit": [_change_numbers(change, asked) for change in asked.changes]}, indent=2))
    else:
        _print_changes(asked, None)
    streams.complain(f"twin plan: {why}")
    return 2


def _lengths(plan: "MemoryPlan", asked: _Asked) -> list[int]:
    lengths = {length for length in LENGTHS if length < plan.max_model_len} | {plan.max_model_len}
    return sorted(lengths | ({asked.given_tokens} if asked.given_tokens else set()))


def _warnings(served: "Machine", plan: "MemoryPlan", asked: _Asked) -> list[str]:
    notes = [*served.notes, *([warning] if (warning := plan.warning()) else [])]
    if asked.tokens > plan.max_model_len:
        notes.append(f"plan.request_tokens={asked.tokens}: longer than model.max_model_len={plan.max_model_len}, "
                     "vLLM rejects such a request")  # fmt: skip
    return notes


def _print_plan(served: "Machine", plan: "MemoryPlan", asked: _Asked) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    gpus = f"{served.gpus} x {served.gpu.name}, each" if served.gpus > 1 else served.gpu.name
    console.print(f"{served.model.name} ({served.model.parameters / 1e9:.2f} billion parameters) on {gpus}")
    memory = Table(box=None, show_header=False, pad_edge=False)
    memory.add_column()
    memory.add_column(justify="right")
    for name, amount in plan.terms():
        memory.add_row(name, amount)
    console.print(memory)
    console.print()
    requests = Table(box=None, pad_edge=False)
    for header in ("requests of so many tokens", "fit at once", f"{asked.seats} seats: what runs out first"):
        requests.add_column(header, justify="left" if header.endswith("first") else "right")
    for length in _lengths(plan, asked):
        first = "memory" if plan.runs_out(asked.seats, length) else "seats"
        requests.add_row(f"{length:,}", f"{plan.concurrent(length):,}", first)
    console.print(requests)
    console.print()
    _print_changes(asked, plan)
    for warning in _warnings(served, plan, asked):
        console.print(f"note: {warning}")


def _print_changes(asked: _Asked, plan: "MemoryPlan | None") -> None:
    """Whether what is asked fits, and what each change would bring."""
    from rich.console import Console
    from rich.table import Table

    from twin.memory.plan import both

    console = Console(highlight=False)
    what = f"{asked.requests:,} requests of {asked.tokens:,} tokens"
    if plan is None:
        console.print(f"{what}: the model itself does not fit")
    else:
        need = asked.requests * -(-asked.tokens // plan.block_size) * plan.block_bytes
        verdict = "do not fit" if plan.runs_out(asked.requests, asked.tokens) else "fit"
        console.print(f"{what} at once need {both(need)} of KV cache; there are {both(plan.num_blocks * plan.block_bytes)}: "
                      f"they {verdict}")  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for header in ("with", "KV tokens", "requests at once", ""):
        right = header in ("KV tokens", "requests at once")
        table.add_column(header, justify="right" if right else "left", no_wrap=header != "with", overflow="fold")
    for change in asked.changes:
        tokens = change.options.get("model.max_model_len", asked.tokens)
        count = change.concurrent(tokens)
        held = f"{change.plan.tokens:,}" if change.plan else "none"
        table.add_row(change.words, held, f"{count:,}", f"{asked.requests:,} fit" if count >= asked.requests else "")
    console.print(table)
