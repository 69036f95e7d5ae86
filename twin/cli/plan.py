"""`twin plan`: what memory a model takes on a GPU, and how many requests fit."""

import json
from typing import TYPE_CHECKING, Any

from twin.cli.compose import compose
from twin.cli.helptext import help_text, wants_help

if TYPE_CHECKING:
    from twin.cli.machine import Machine
    from twin.memory import MemoryPlan

DOES = """Calculates by vLLM's arithmetic what a model takes of a GPU's memory: weights, KV bytes of a token, KV blocks, how
many requests run at once, and whether memory or seats run out first. `--json` prints the numbers for programs."""
EXAMPLE = "python -m twin plan model=qwen2.5-14b gpu=a100-80g model.max_model_len=8192"
SECTIONS = ("model", "gpu", "parallel", "cache", "scheduler")
LENGTHS = (1024, 4096, 16384, 65536)  # tokens of a request, prompt and output, for the table


def main(words: list[str]) -> int:
    """Prints the plan; returns the exit status."""
    if wants_help(words):
        print(help_text("plan", DOES, EXAMPLE, [word for word in words if word != "--json"], SECTIONS), end="")
        return 0
    from twin.cli.machine import machine, memory_plan
    from twin.cli.options import check_options

    composed = compose([word for word in words if word != "--json"])
    check_options(composed.values)
    served = machine(composed.values)
    plan = memory_plan(composed.values, served)
    seats = composed.values["scheduler"]["max_num_seqs"]
    if "--json" in words:
        print(json.dumps(numbers(served, plan, seats), indent=2))
    else:
        _print_tables(served, plan, seats)
    return 0


def numbers(served: "Machine", plan: "MemoryPlan", seats: int) -> dict[str, Any]:
    """The plan as flat keys; bytes and blocks are those of one GPU."""
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
        "kv_bytes_per_token": plan.kv_bytes_per_token,
        "block_size": plan.block_size,
        "block_bytes": plan.block_bytes,
        "num_gpu_blocks": plan.num_blocks,
        "kv_tokens": plan.tokens,
        "max_model_len": plan.max_model_len,
        "max_num_seqs": seats,
        "concurrent_requests": {str(length): plan.concurrent(length) for length in _lengths(plan)},
        "runs_out": {str(length): plan.runs_out(seats, length) for length in _lengths(plan)},
        "warnings": _warnings(served, plan),
    }


def _lengths(plan: "MemoryPlan") -> list[int]:
    return [length for length in LENGTHS if length < plan.max_model_len] + [plan.max_model_len]


def _warnings(served: "Machine", plan: "MemoryPlan") -> list[str]:
    warning = plan.warning()
    return [*served.notes, *([warning] if warning else [])]


def _print_tables(served: "Machine", plan: "MemoryPlan", seats: int) -> None:
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
    for header in ("requests of so many tokens", "fit at once", f"{seats} seats: what runs out first"):
        requests.add_column(header, justify="left" if header.endswith("first") else "right")
    for length in _lengths(plan):
        first = "memory" if plan.runs_out(seats, length) else "seats"
        requests.add_row(f"{length:,}", f"{plan.concurrent(length):,}", first)
    console.print(requests)
    for warning in _warnings(served, plan):
        console.print(f"note: {warning}")
