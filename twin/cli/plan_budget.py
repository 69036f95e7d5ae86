"""`twin plan plan.kv_budget_gb=N`: requests in a KV cache of a given size, by the arithmetic of the textbooks."""

import json
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError, naming
from twin.cli.options import POSITIVE, SHARE, check_rules, integer, number, or_null

if TYPE_CHECKING:
    from twin.memory.changes import KvBudget

GIB = 2**30
MOST_GB = 1e9
RULES = {
    "plan.request_tokens": or_null(integer(1, 2**31)),
    "plan.requests": or_null(integer(1, 2**31)),
    "plan.kv_budget_gb": or_null(number(1e-9, MOST_GB)),
    "plan.kv_budget_gib": or_null(number(1e-9, MOST_GB)),
    "plan.kv_bytes_per_token": or_null(POSITIVE),
    "plan.kv_use": SHARE,
}


def check_plan_options(values: dict[str, Any]) -> None:
    """Raises UserError for a value that is not allowed, and for options that do not go together."""
    check_rules(RULES, values)
    given = values["plan"]
    budgets = [name for name in ("kv_budget_gb", "kv_budget_gib") if given[name] is not None]
    if len(budgets) == 2:
        raise UserError("plan.kv_budget_gb, plan.kv_budget_gib: give one of them; a GB is 10^9 bytes, a GiB 2^30")
    if not budgets:
        for name, default in (("kv_bytes_per_token", None), ("kv_use", 1.0)):
            if given[name] != default:
                raise UserError(f"plan.{name}: is of a given KV budget; give plan.kv_budget_gb=N too, or leave it out")


def budget_plan(values: dict[str, Any], as_json: bool) -> int:
    """Prints what fits into the budget; the exit status."""
    from twin.memory import model_shape
    from twin.memory.changes import KvBudget

    given = values["plan"]
    with naming("model"):
        model = model_shape(values["model"], values["cache"]["kv_cache_dtype"])
    budget_bytes = given["kv_budget_gb"] * 1e9 if given["kv_budget_gb"] else given["kv_budget_gib"] * GIB
    budget = KvBudget(budget_bytes, given["kv_bytes_per_token"] or model.kv_bytes_per_token, given["kv_use"])
    tokens = given["request_tokens"] or values["model"].get("max_model_len") or model.max_position
    name = "as given" if given["kv_bytes_per_token"] else model.name
    if as_json:
        print(json.dumps(_numbers(name, budget, tokens, given["requests"]), indent=2))
    else:
        _print(name, budget, tokens, given["requests"])
    return 0


def _numbers(name: str, budget: "KvBudget", tokens: int, requests: int | None) -> dict[str, Any]:
    found = {
        "model": name,
        "kv_budget_bytes": budget.budget_bytes,
        "kv_use": budget.use,
        "kv_bytes_per_token": budget.bytes_per_token,
        "kv_tokens": budget.tokens,
        "request_tokens": tokens,
        "concurrent_requests": {str(tokens): budget.concurrent(tokens)},
    }
    return found | ({"requests": requests, "fits": budget.concurrent(tokens) >= requests} if requests else {})


def _print(name: str, budget: "KvBudget", tokens: int, requests: int | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from twin.memory.plan import both

    each = budget.bytes_per_token
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("KV cache", both(budget.budget_bytes))
    if budget.use < 1:
        table.add_row(f"of which hold tokens (x {budget.use:g})", both(budget.budget_bytes * budget.use))
    table.add_row(f"KV cache of a token ({name})", f"{each:,.0f} bytes = {each / 1e6:.4g} MB ({each / 2**20:.4g} MiB)")
    table.add_row("tokens", f"{budget.tokens:,}")
    table.add_row(f"KV cache of a request of {tokens:,} tokens", both(each * tokens))
    table.add_row(f"requests of {tokens:,} tokens at once", f"{budget.concurrent(tokens):,}")
    if requests:
        verdict = "fit" if budget.concurrent(tokens) >= requests else "do not fit"
        table.add_row(f"{requests:,} such requests need", f"{both(budget.needed_bytes(requests, tokens))}: they {verdict}")
    Console(highlight=False).print(table)
