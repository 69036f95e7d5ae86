"""Scenarios that somebody thought of: each meets one thing that policies get wrong. Steps take one second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Content = dict[str, Any]


def request(name: str, prompt: int, output: int, arrival_s: float = 0.0, **more: Any) -> Content:
    """A row of a scenario file."""
    return {"id": name, "arrival_s": arrival_s, "prompt_tokens": prompt, "output_tokens": output, **more}


def system(requests: list[Content], blocks: int, mode: str = "recompute", host: int = 0, **scheduler: Any) -> Content:
    """A scenario with blocks of 16 tokens."""
    return {
        "cache": {"num_gpu_blocks": blocks, "block_size": 16, "num_cpu_blocks": host},
        "scheduler": {"max_num_seqs": 16, "max_num_batched_tokens": 64, **scheduler},
        "policy": {"preemption_mode": mode},
        "latency": {"base_s": 1.0},
        "requests": requests,
    }


def many(count: int, prompt: int, output: int, arrival_s: float = 0.0, **more: Any) -> list[Content]:
    """Requests that are alike."""
    return [request(f"r{number:02d}", prompt, output, arrival_s, **more) for number in range(count)]


def aborted(mode: str, host: int) -> Content:
    """One is given up while it waits, computes its prompt, decodes, is swapped out, arrives, and after its end."""
    requests = [
        request("waits", 40, 4, 1.0, abort_s=2.5),
        request("in its prompt", 130, 4, 0.0, abort_s=1.5),
        request("decodes", 16, 40, 0.0, abort_s=6.5),
        request("swapped", 30, 60, 0.9, abort_s=22.25),
        request("arrives", 16, 4, 3.0, abort_s=3.0),
        request("has ended", 10, 2, 0.0, abort_s=60.0),
        request("stays", 32, 40, 0.25),
        request("stays too", 16, 50, 0.75),
    ]
    return system(requests, 9, mode, host, max_num_seqs=5)


def scenarios() -> Iterator[tuple[str, Content]]:
    """(name, content) of each."""
    yield "a single request", system([request("A", 16, 8)], 4)
    yield "a single token", system([request("A", 1, 1), request("B", 1, 1)], 1)
    yield "exactly the whole pool", system([request("A", 33, 32), request("B", 16, 1), request("C", 33, 32, 1.0)], 4)
    yield "oversize", system([request("small", 16, 4), request("huge", 200, 100), request("next", 16, 4, 1.0)], 8)
    yield "a burst", system(many(60, 20, 10), 12)
    yield "all at a block edge", system(many(6, 16, 18), 7)
    yield "all at a block edge, one by one", system([request(f"r{n}", 15 + n, 40, n) for n in range(6)], 8)
    yield "swap without host memory", system(many(8, 24, 30), 9, "swap")
    yield "swap with one host block", system(many(8, 24, 30), 9, "swap", 1)
    yield "swap with room", system(many(8, 24, 30), 9, "swap", 100)
    yield "aborts, recompute", aborted("recompute", 0)
    yield "aborts, swap", aborted("swap", 40)
    yield "all aborted", system([row | {"abort_s": 2.0 + 0.5 * place} for place, row in enumerate(many(6, 40, 30))], 9)
    yield "equal in everything", system(many(12, 20, 12, user="u", session="s", priority=1, deadline_s=30.0), 9)
    yield "one seat", system([request(f"r{n}", 10 + 5 * n, 6, 0.1 * n) for n in range(6)], 20, max_num_seqs=1)
    yield "one token a step", system([request(f"r{n}", 4 + n, 3, 0.1 * n) for n in range(4)], 20, max_num_batched_tokens=1)
    yield "long pauses", system([request(f"r{n}", 16, 4, time_s) for n, time_s in enumerate((0, 1e3, 1e3, 1e6))], 8)
    yield "late deadlines", system([row | {"deadline_s": 0.5} for row in many(8, 20, 10, 2.0)], 9)
    priorities = (10**12, -5, 0, 0, -(10**12), 7)
    yield "odd priorities", system([row | {"priority": p} for row, p in zip(many(6, 20, 20), priorities, strict=True)], 6)
    tiers = [request(f"r{n:02d}", 30, 20, 1.5 * n, priority=5 - n % 6, user=f"u{n % 4}") for n in range(18)]
    yield "each more urgent than the one before", system(tiers, 8, max_num_seqs=3)
    shrinking = [request(f"r{n:02d}", 20, 60 - 5 * n, 2.0 * n, user="u") for n in range(11)]
    yield "each shorter than the one before", system(shrinking, 14, max_num_seqs=2)
    shared = system([request(f"r{n:02d}", 0, 12, n // 4) for n in range(12)], 10)
    shared["cache"]["enable_prefix_caching"] = True
    for row in shared["requests"]:
        del row["prompt_tokens"]
        row["prompt"] = "0-40"
    yield "one prompt for all", shared
    yield "samples", system([row | {"n": 3} for row in many(5, 20, 20)], 14, max_num_seqs=4)
    for mode, host in (("keep", 0), ("swap", 40), ("recompute", 0)):
        calls = [row | {"pauses": [[3, 4.0], [5 + n % 3, 0.5, 9]]} for n, row in enumerate(many(8, 20, 12))]
        with_tools = system(calls, 7, "recompute", host, max_num_seqs=4)
        yield f"tool calls, {mode}", {**with_tools, "policy": {"preemption_mode": "recompute", "pause": mode}}
    traits: list[Content] = [{}, {"user": "u"}, {"deadline_s": 9.0}, {"session": "s", "priority": 1}, {"user": "", "n": 1}]
    yield "traits that not everybody has", system([row | traits[n % 5] for n, row in enumerate(many(15, 16, 12))], 6)


def all_scenarios() -> Iterator[tuple[str, Content]]:
    """Each synchronous and asynchronous."""
    for name, content in scenarios():
        for flag in (False, True):
            scheduler = content["scheduler"] | {"async_scheduling": flag}
            yield f"{name}{', asynchronous' if flag else ''}", {**content, "scheduler": scheduler}
