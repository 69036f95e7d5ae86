"""Records to test with: two that a person can check by hand, and a large one of a queue."""

import heapq
from typing import Any

import numpy as np

from twin.results.record import Record

NAN = float("nan")


def requests(**columns: Any) -> dict[str, Any]:
    """Columns of requests, each finished after one token unless said otherwise."""
    rows = max((len(values) for values in columns.values()), default=1)
    default = {
        "request_id": [f"r{row}" for row in range(rows)],
        "arrival_s": [0.0] * rows,
        "prompt_tokens": [16] * rows,
        "output_tokens": columns.get("generated_tokens", [1] * rows),
        "generated_tokens": [1] * rows,
        "status": ["finished"] * rows,
        "first_scheduled_s": columns.get("arrival_s", [0.0] * rows),
        "first_token_s": [1.0] * rows,
        "finish_s": [1.0] * rows,
    }
    return default | columns


def steps(**columns: Any) -> dict[str, Any]:
    """Columns of steps of one second each, one after the other, in a pool of 16 blocks."""
    rows = max((len(values) for values in columns.values()), default=0)
    used = np.asarray(columns.get("used_blocks", [0] * rows))
    cached = np.asarray(columns.get("cached_blocks", [0] * rows))
    default = {
        "step": np.arange(1, rows + 1),
        "start_s": np.arange(rows, dtype=float),
        "duration_s": np.ones(rows),
        "sequences": np.ones(rows, dtype=int),
        "waiting": np.zeros(rows, dtype=int),
        "running": np.ones(rows, dtype=int),
        "used_blocks": used,
        "free_blocks": 16 - used - cached,
    }
    return default | columns


def record(request_columns: dict[str, Any], step_columns: dict[str, Any] | None = None, **others: Any) -> Record:
    """A record of them, in a pool of 16 blocks of 4 tokens."""
    empty = np.empty(0)
    default: dict[str, Any] = {"itl_s": empty, "itl_count": empty, "num_blocks": 16, "block_size": 4}
    return Record(request_columns, steps() if step_columns is None else step_columns, **(default | others))


def two() -> Record:
    """Two requests in unit steps, A = (16 prompt, 3 output) at 0, B = (16 prompt, 2 output) at 0.5, and C rejected.

    Step 1 [0, 1]: A's prompt. Step 2 [1, 2]: A's second token, B's prompt. Step 3 [2, 3]: both end.
    Blocks of 4: after step 1 A holds 4; after step 2 A 5 (17 tokens) and B 4; after step 3 none.
    """
    return record(
        requests(
            request_id=["A", "B", "C"],
            arrival_s=[0.0, 0.5, 0.5],
            prompt_tokens=[16, 16, 400],
            output_tokens=[3, 2, 9],
            generated_tokens=[3, 2, 0],
            status=["finished", "finished", "rejected"],
            reason=["length", "length", "needs 102 blocks, the pool has 16"],
            first_scheduled_s=[0.0, 1.0, NAN],
            first_token_s=[1.0, 2.0, NAN],
            finish_s=[3.0, 3.0, 0.5],
            user=["ann", None, "bob"],
        ),
        steps(
            prefill_tokens=[16, 16, 0],
            decode_tokens=[0, 1, 2],
            sequences=[1, 2, 2],
            context_tokens=[16, 33, 35],
            waiting=[1, 0, 0],
            running=[1, 2, 0],
            used_blocks=[4, 9, 0],
        ),
        itl_s=[1.0],
        itl_count=[3],
        block_steps=np.array([4, 9, 9]),
        token_steps=np.array([16, 33, 35]),
        peak_blocks=np.array([4, 9, 9]),
        wall_s=0.5,
        end_s=3.0,
    )


def queue(number: int, rate: float = 5.0, seats: int = 4, seed: int = 0, service_s: float = 0.6) -> Record:
    """An M/M/c queue as if it were a run: Poisson arrivals, `seats` servers, a row of steps for each event."""
    draw = np.random.default_rng(seed)
    arrival_s = np.cumsum(draw.exponential(1 / rate, number))
    work_s = draw.exponential(service_s, number)
    free = [0.0] * seats
    start_s = np.empty(number)
    for row in range(number):
        start_s[row] = max(arrival_s[row], heapq.heappop(free))
        heapq.heappush(free, start_s[row] + work_s[row])
    finish_s = start_s + work_s
    generated = np.maximum(1, (work_s * 50).astype(int))
    times = np.concatenate((arrival_s, start_s, finish_s))
    order = np.argsort(times, kind="stable")
    ones, none = np.ones(number, dtype=int), np.zeros(number, dtype=int)
    waiting = np.maximum(0, np.cumsum(np.concatenate((ones, -ones, none))[order]))
    running = np.cumsum(np.concatenate((none, ones, -ones))[order])
    used = np.minimum(1000, running * 1000 // seats - draw.integers(0, 40, 3 * number) * (running > 0))
    cached = (1000 - used) // 2
    start = np.concatenate(([0.0], times[order][:-1]))
    table = {
        "step": np.arange(1, 3 * number + 1),
        "start_s": start,
        "duration_s": times[order] - start,
        "sequences": running,
        "decode_tokens": running,
        "waiting": waiting,
        "running": np.maximum(0, running),
        "used_blocks": used,
        "cached_blocks": cached,
        "free_blocks": 1000 - used - cached,
        "preempted": (draw.random(3 * number) < 0.002).astype(int),
    }
    rows = requests(
        arrival_s=arrival_s, prompt_tokens=draw.integers(10, 2000, number), generated_tokens=generated,
        first_scheduled_s=start_s, first_token_s=start_s + np.minimum(work_s, 0.05), finish_s=finish_s,
        user=[f"user{row % 17}" for row in range(number)], preemptions=(draw.random(number) < 0.01).astype(int),
    )  # fmt: skip
    itl_s = draw.lognormal(-4, 0.3, 2 * number)
    return record(rows, table, num_blocks=1000, block_size=16, itl_s=itl_s, itl_count=ones.repeat(2),
                  wall_s=1.5, end_s=float(finish_s.max()))  # fmt: skip
