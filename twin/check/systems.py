"""Random systems under pressure: few blocks, few seats, small budgets, so that every rule of the step is met often.

Each is the content of a scenario file, so that a failing one can be written down and played again. All is drawn from a
seed, nothing from anywhere else.
"""

from __future__ import annotations

from random import Random
from typing import Any

BLOCK_SIZES = (1, 2, 4, 4, 8, 16)  # tokens
Content = dict[str, Any]


def random_system(seed: str) -> Content:
    """A system and its requests."""
    rng = Random(seed)
    block_size = rng.choice(BLOCK_SIZES)
    longest_prompt, longest_output = rng.choice((3 * block_size, 60)), rng.choice((4 * block_size + 2, 50))
    rows = range(rng.choice((24, 16, 16, 8, 3)))
    prompts = [rng.randint(1, longest_prompt) for _ in rows]
    outputs = [rng.randint(1, longest_output) for _ in rows]
    most = [output + rng.choice((0, 0, rng.randint(0, 20))) for output in outputs]  # max_tokens
    longest = max(prompt + more for prompt, more in zip(prompts, most, strict=True))
    pauses = [_pauses(rng, output) for output in outputs] if rng.random() < 0.3 else [[] for _ in rows]
    longest += max(sum(returned for _, _, returned in calls) for calls in pauses)
    blocks = -(-(longest - 1) // block_size)
    blocks += rng.choice((0, 1, rng.randint(0, blocks), rng.randint(0, 8 * blocks)))
    caches = rng.random() < 0.5
    content = _system(rng, block_size, blocks, caches)
    span_s = len(rows) * rng.choice((0.001, 0.05, 0.3))
    named, urgent, aborted, sampled = (rng.random() < share for share in (0.7, 0.7, 0.35, 0.3))
    groups, common = rng.randint(1, 3), rng.choice((1, 5, 100)) * block_size
    for row, prompt, output, more in zip(rows, prompts, outputs, most, strict=True):
        arrival_s = rng.choice((0.0, round(rng.random() * span_s, 4)))
        request: Content = {"id": f"r{row:02d}", "arrival_s": arrival_s}
        request |= {"prompt": _prompt(row, prompt, groups, common)} if caches else {"prompt_tokens": prompt}
        request["output_tokens"] = output
        if more > output or rng.random() < 0.3:
            request["max_tokens"] = more
        if named and rng.random() < 0.9:
            request |= {"user": f"user-{rng.randint(0, 5)}", "session": f"session-{row % 7}"}
        if urgent:
            request["priority"] = rng.randint(0, 2)
        if urgent and rng.random() < 0.7:
            request["deadline_s"] = round(arrival_s + rng.random() * 2, 4)
        if aborted and rng.random() < 0.3:
            request["abort_s"] = round(rng.random() * 1.5 * span_s, 4)
        if sampled:
            request["n"] = min(rng.choice((1, 1, 2, 3)), content["scheduler"]["max_num_seqs"])
        if pauses[row] and request.get("n", 1) == 1:
            request["pauses"] = pauses[row]
        content["requests"].append(request)
    return content


def _system(rng: Random, block_size: int, blocks: int, caches: bool) -> Content:
    """Everything but the requests."""
    return {
        "cache": {
            "num_gpu_blocks": blocks,
            "block_size": block_size,
            "num_cpu_blocks": rng.choice((0, 0, 50, 4)),
            "enable_prefix_caching": caches,
            "watermark": rng.choice((0.0, 0.0, 0.0, 0.05)),
        },
        "scheduler": {
            "max_num_seqs": rng.choice((2, 4, 16, 128)),
            "max_num_batched_tokens": rng.choice((8, 16, 64, 512, 4096)),
            "long_prefill_token_threshold": rng.choice((0, 0, 7)),
            "async_scheduling": rng.random() < 0.5,
        },
        "policy": {
            "preemption_mode": rng.choice(("recompute", "swap", "auto")),
            "pause": rng.choice(("recompute", "swap", "keep")),
        },
        "swap": {"bandwidth_gib_s": rng.choice((None, 1.0)), "per_copy_s": rng.choice((0.0, 1e-4))},
        "latency": {
            "base_s": 8e-3, "mixed_s": rng.choice((0.0, 3e-3)), "per_seq_s": rng.choice((0.0, 1e-5)),
            "per_prefill_token_s": 60e-6, "per_decode_token_s": 50e-6, "per_context_token_s": 1e-7,
        },
        "requests": [],
    }  # fmt: skip


def _pauses(rng: Random, output: int) -> list[list[Any]]:
    """Tool calls: after so many tokens, for so many seconds, with so many tokens in the answer."""
    after = sorted(rng.sample(range(1, output), min(output - 1, rng.choice((0, 1, 2)))))
    return [[tokens, rng.choice((0.01, 0.05, 1.0)), rng.choice((0, 0, 7))] for tokens in after]


def _prompt(row: int, tokens: int, groups: int, common: int) -> str:
    """Token ids: the group's at the front, then ids that nobody else has."""
    shared = min(tokens, common)
    start, own = (row % groups) * 1_000_000, (row + 10) * 1_000_000
    parts = [f"{start}-{start + shared - 1}"] + ([f"{own}-{own + tokens - shared - 1}"] if tokens > shared else [])
    return ",".join(parts)
