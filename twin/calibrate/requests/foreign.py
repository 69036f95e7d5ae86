"""Logs of other programs, as the columns of ours: vLLM's request metrics, and what `vllm bench serve` saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twin.calibrate.requests.log import COLUMNS

# vLLM V1's RequestStateStats and RequestMetrics; token counts as the programs around vLLM call them.
VLLM = {
    "request_id": ("request_id", "id"),
    "arrival_s": ("arrival_time", "arrival_ts"),
    "prompt_tokens": ("input_toks", "prompt_tokens", "num_prompt_tokens"),
    "output_tokens": ("output_toks", "output_tokens", "num_generation_tokens", "completion_tokens"),
    "queued_s": ("queued_ts", "first_queued_time"),
    "scheduled_s": ("scheduled_ts", "first_scheduled_time"),
    "first_token_s": ("first_token_ts", "first_token_time"),
    "finish_s": ("last_token_ts", "last_token_time", "finished_time"),
}


def translated(source: str, table: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The table's columns by our names, whosever it is."""
    if "ttfts" in table:
        return of_bench_serve(source, table)
    if "arrival_s" not in table and any(name in table for name in VLLM["arrival_s"]):
        named = {ours: next((name for name in theirs if name in table), None) for ours, theirs in VLLM.items()}
        return {ours: table[name] for ours, name in named.items() if name is not None}
    return {name: table[name] for name in (*COLUMNS, "prompt_ids") if name in table}


def of_bench_serve(source: str, table: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """input_lens, output_lens, ttfts, itls (lists of inter-token times) and start_times, seconds; a failed request has none.

    The client's times hold the network and the HTTP server, which the simulator then takes for the engine's.
    """
    missing = [name for name in ("input_lens", "output_lens", "itls", "start_times") if name not in table]
    if missing:
        raise ValueError(
            f"{source}: no {', '.join(missing)}; save them with `vllm bench serve --save-result --save-detailed`, of a vLLM "
            "that writes start_times"
        )
    rows = zip(table["start_times"], table["ttfts"], table["itls"], table["output_lens"], strict=True)
    first, last = [], []
    for start, ttft, gaps, tokens in rows:
        came = bool(ttft) and tokens > 0
        first.append(start + ttft if came else None)
        last.append(start + ttft + sum(gaps) if came else None)
    return {
        "arrival_s": table["start_times"],
        "prompt_tokens": table["input_lens"],
        "output_tokens": [max(1, tokens) for tokens in table["output_lens"]],
        "first_token_s": first,
        "finish_s": last,
    }
