"""Random scenarios for vLLM's scheduler and ours: few blocks, few seats, small budgets, so that every rule is met often."""

from __future__ import annotations

from random import Random
from typing import Any

from engine.oracle.versions import OPTIONS_MISSING

Content = dict[str, Any]
ONE_SECOND = {"base_s": 1.0}
UNEVEN = {
    "base_s": 0.01, "mixed_s": 0.003, "per_seq_s": 0.0005, "per_prefill_token_s": 0.001, "per_decode_token_s": 0.0007,
    "per_context_token_s": 0.00003,
}  # fmt: skip


def random_scenario(seed: int | str, version: str, asynchronous: bool) -> Content:
    """The content of a scenario file that vLLM of this version can play."""
    rng = Random(f"{seed} {asynchronous}")
    block_size = rng.choice((2, 4, 4, 8, 16))
    blocks = rng.choice((4, 6, 8, 9, 12, 16, 19, 24, 39))
    latency = rng.choice((ONE_SECOND, UNEVEN))
    chunked = rng.random() < 0.85
    watermark = rng.choice((0.0, 0.0, 0.05, 0.1, 0.25))
    missing = OPTIONS_MISSING.get(version, ())
    chunked |= "enable_chunked_prefill=false" in missing
    budget = rng.choice((8, 16, 24, 32, 64, 128))
    content: Content = {
        "cache": {
            "num_gpu_blocks": blocks,
            "block_size": block_size,
            "enable_prefix_caching": rng.random() < 0.6,
            "watermark": 0.0 if "watermark" in missing else watermark,
        },
        "scheduler": {
            "max_num_seqs": rng.choice((1, 2, 3, 4, 8, 256)),
            "max_num_batched_tokens": budget if chunked else max(budget, 64),
            "enable_chunked_prefill": chunked,
            "long_prefill_token_threshold": rng.choice((0, 0, 0, 4, 7, 16)),
            "async_scheduling": asynchronous,
        },
        "model": {"max_model_len": rng.choice((64, 4096, 4096)) if chunked else 64},
        "policy": {"name": rng.choice(("fcfs", "priority"))},
        "latency": latency,
        "vllm_defects": True,
        "requests": [],
    }
    scale_s = 1.0 if latency is ONE_SECOND else 0.02
    span_s = rng.choice((0, 2, 6, 20)) * scale_s
    apart = version == "0.11" and content["policy"]["name"] == "priority"  # its queue cannot compare two that tie
    for place in range(rng.randint(2, 12)):
        content["requests"].append(_request(rng, place, blocks * block_size, span_s, scale_s, apart))
    return content


def _request(rng: Random, place: int, capacity: int, span_s: float, scale_s: float, apart: bool) -> Content:
    prompt = rng.randint(1, max(2, min(capacity, 60) * 3 // 4))
    output = rng.randint(1, max(1, min(24, capacity - prompt + 1)))
    arrival_s = round(rng.random() * span_s, 4) + (place * 1e-6 if apart else 0.0)
    request: Content = {
        "id": f"r{place:02d}",
        "arrival_s": arrival_s,
        "output_tokens": output,
        "priority": rng.randint(0, 2),
    }
    if rng.random() < 0.6:  # one of three beginnings, shared with others, then ids of its own
        start, shared = rng.randint(0, 2) * 100, rng.randint(1, prompt)
        own = 1000 + place * 100
        request["prompt"] = f"{start}-{start + shared - 1}"
        if shared < prompt:
            request["prompt"] += f",{own}-{own + prompt - shared - 1}"
    else:
        request["prompt_tokens"] = prompt
    if rng.random() < 0.3:
        request["max_tokens"] = output + rng.randint(0, 8)
    if rng.random() < 0.15:
        request["abort_s"] = round(arrival_s + rng.random() * 8 * scale_s, 4)
    return request
