"""Which points of the grid a time budget allows, by what a few probes say that each will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from engine.profile.composition import Composition
from twin.core.limits import Limits

MOST_OF_BUDGET = 0.1  # that one point may take, all its repeats together: else a few long ones would eat it up
PROBE_CHUNK = 128  # tokens
PROBE_DECODES = 8  # also so many blocks to swap
PROBE_CONTEXT = 2048


class Probes(NamedTuple):
    """Five small points, each of which differs from one before it in one respect. None: the limits do not allow it."""

    base: Composition
    chunk: Composition | None
    context: Composition | None
    pairs: Composition | None
    swap: Composition | None


def probes(limits: Limits) -> Probes:
    block = limits.block_size
    longest = min(limits.max_model_len, limits.num_blocks * block, PROBE_CONTEXT)
    chunk = min(PROBE_CHUNK, limits.max_num_batched_tokens, longest)
    batch = min(PROBE_DECODES, limits.max_num_seqs, limits.max_num_batched_tokens, limits.num_blocks)
    context = min(longest, limits.num_blocks // batch * block)
    blocks = min(PROBE_DECODES, limits.num_host_blocks, limits.num_blocks - 1)
    return Probes(
        Composition("decode", 1, min(block, longest)),
        Composition("prefill", prompts=1, chunk=chunk) if chunk > 1 else None,
        Composition("decode", batch, context) if batch * context > block else None,
        Composition("prefill", prompts=1, chunk=chunk, chunk_before=longest - chunk) if longest > chunk else None,
        Composition("swap", 1, min(block, longest), blocks_out=blocks, scattered=blocks > 1) if blocks > 0 else None,
    )


def blocks_moved(point: Composition) -> int:
    return point.blocks_out + point.blocks_in


@dataclass(frozen=True)
class Costs:
    """Seconds that a point will take about, all that belongs to its measurement included; never below zero."""

    base_s: float
    per_token_s: float = 0.0
    per_context_s: float = 0.0  # and token of context of the decodes
    per_pair_s: float = 0.0  # of query and key, of the prefill parts
    per_block_s: float = 0.0  # that moves

    def of(self, point: Composition) -> float:
        features = point.features
        return (
            self.base_s
            + self.per_token_s * point.tokens
            + self.per_context_s * point.decodes * point.decode_context
            + self.per_pair_s * features.prefill_attention
            + self.per_block_s * blocks_moved(point)
        )


def costs(taken: Probes, seconds: Mapping[Composition, float]) -> Costs:
    """From what the probes took: differences, each divided by what differs."""

    def per(point: Composition | None, known: Costs, amount: Callable[[Composition], float]) -> float:
        if point is None or not amount(point):
            return 0.0
        return max(0.0, (seconds[point] - known.of(point)) / amount(point))

    base_s = seconds[taken.base]
    token = per(taken.chunk, Costs(base_s), lambda point: point.tokens)
    known = Costs(base_s, token)
    context = per(taken.context, known, lambda point: point.decodes * point.decode_context)
    pair = per(taken.pairs, known, lambda point: point.features.prefill_attention)
    block = per(taken.swap, Costs(base_s), blocks_moved)
    return Costs(base_s, token, context, pair, block)


POINTS_A_TURN = {"decode": 2, "prefill": 2, "mixed": 2}  # of the groups that most steps are of; others: 1


class Selection(NamedTuple):
    """What is to be measured, and what is not."""

    points: list[Composition]
    planned: int  # of the whole grid
    too_long: int  # left out: one alone would take too much of the budget
    over_budget: int  # left out: the budget was used up
    seconds: float  # for all of `points`


def select(groups: Mapping[str, list[Composition]], costs: Costs, rounds: int, budget_s: float) -> Selection:
    """Points from all groups in turn, as many as `rounds` rounds over them have time for within `budget_s`."""
    queues = {name: iter(points) for name, points in groups.items()}
    taken: dict[Composition, None] = {}
    seen: set[Composition] = set()
    left_s, too_long, over_budget = budget_s, 0, 0
    while queues:
        turn = [name for name in queues for _ in range(POINTS_A_TURN.get(name, 1))]
        for name in turn:
            point = next((point for point in queues.get(name, ()) if point not in seen), None)
            if point is None:
                queues.pop(name, None)
                continue
            seen.add(point)
            point_s = rounds * costs.of(point)
            if point_s > MOST_OF_BUDGET * budget_s:
                too_long += 1
            elif point_s > left_s:
                over_budget += 1
            else:
                taken[point] = None
                left_s -= point_s
    return Selection(list(taken), len(seen), too_long, over_budget, budget_s - left_s)
