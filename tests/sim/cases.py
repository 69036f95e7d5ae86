"""Random systems under pressure: limits, rules, policies and requests that meet every rule of the step often."""

from collections import Counter
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from policies.fcfs import Fcfs
from policies.priority import Priority
from traces.trace import Trace
from twin.core.limits import Limits, Rules, blocks_for
from twin.latency.linear import LinearLatency
from twin.policies_registry import find
from twin.policy import Plan, Policy
from twin.policy_parts import combined
from twin.predictors.oracle import Oracle
from twin.sim.simulation import Outcome, Setup
from twin.sim.swap_link import SwapCost

NAN = float("nan")
YES = st.just(True)


# --- policies that use each hook and declaration


class Sjf(Policy):
    """The order is fixed while a request waits."""

    needs_prediction = True

    def order(self, request, view):
        return request.predicted_output


class Srpt(Policy):
    """A preemptive order."""

    preempts = True
    needs_prediction = True

    def order(self, request, view):
        return request.predicted_output - request.generated


class Vtc(Policy):
    """An order that changes user by user, with every step: the virtual token counter."""

    dynamic, group = True, "user"

    def __init__(self) -> None:
        self.served: dict[str | None, int] = {}

    def on_arrival(self, request, view):
        self.served.setdefault(request.user, min(self.served.values(), default=0))

    def order(self, request, view):
        return self.served[request.user]

    def on_admit(self, request, view):
        if not request.preemptions:
            self.served[request.user] += request.prompt_tokens

    def on_step(self, view, batch, k):
        for user, tokens in batch.by_user.items():
            self.served[user] += 2 * tokens * k


class Capped(Policy):
    """At most six at once, in chunks of at most five tokens."""

    def admit(self, request, view):
        return view.num_running < 6

    def chunk(self, request, offered, view):
        return min(offered, 5)


class PromptsFirst(Policy):
    """A whole plan: prompts alone where any can come in, else a token for each, the last admitted gives way."""

    def schedule(self, view):
        plan = Plan(view)
        for request in view.running:
            if request.pending > 1:
                plan.take(request)
        for request in view.waiting:
            if not plan.take(request):
                break
        if not plan.empty:
            return plan
        for request in view.running:
            while request.state == "running" and request.pending and plan.budget and not plan.take(request):
                plan.preempt(view.running[-1], "recompute")
        return plan


# --- systems


@dataclass
class Case:
    """A system and its requests; `setup()` makes a fresh policy each time."""

    policy: type[Policy]
    limits: Limits
    rules: Rules
    swap: SwapCost
    latency: LinearLatency
    trace: Trace
    parts: dict[str, str] = field(default_factory=dict)  # names of policies, by role

    def setup(self) -> Setup:
        policy = combined(self.policy(), {role: find(name).policy() for role, name in self.parts.items()})
        return Setup(self.limits, policy, self.latency, self.rules, self.swap, Oracle())

    def generated(self, row: int) -> int:
        """Tokens that a request yields if it comes to its end."""
        trace, prompt = self.trace, int(self.trace.prompt_tokens[row])
        assert trace.max_tokens is not None
        each = min(trace.output_tokens[row], trace.max_tokens[row], self.limits.max_model_len - prompt)
        return int(each) * self.samples(row)

    def samples(self, row: int) -> int:
        return 1 if self.trace.n is None else int(self.trace.n[row])


class SharedContent:
    """Block keys by row: the content of prompts, and of outputs where these agree too."""

    def __init__(self, keys: list[list[int]], block_size: int) -> None:
        self.keys, self.block_size = keys, block_size

    def __len__(self) -> int:
        return len(self.keys)

    def shareable_tokens(self) -> np.ndarray:
        return np.array([len(keys) * self.block_size for keys in self.keys])

    def block_keys(self, row: int, block_size: int, count: int) -> list[int]:
        return self.keys[row][:count]


def seldom(strategy: st.SearchStrategy, otherwise: Any = None) -> st.SearchStrategy:
    """One time in three."""
    return st.integers(0, 2).flatmap(lambda draw: strategy if draw == 2 else st.just(otherwise))


@st.composite
def cases(draw: st.DrawFn, policies: tuple[type[Policy], ...] = ()) -> Case:
    block_size = draw(st.sampled_from([1, 2, 4, 4, 8, 16]))
    longest_prompt = draw(st.sampled_from([3 * block_size, 60]))
    longest_output = draw(st.sampled_from([4 * block_size + 2, 50]))
    rows = range(draw(st.sampled_from([24, 16, 8, 3])))
    rng = Random(
        draw(st.integers(0, 2**32))
    )  # columns: drawn evenly, for pressure; all else by hypothesis, which shrinks it
    prompts = [rng.randint(1, longest_prompt) for _ in rows]
    outputs = [rng.randint(1, longest_output) for _ in rows]
    beyond = [rng.choice([0, 0, rng.randint(0, 20)]) for _ in rows]  # max_tokens above the true length
    most = [prompt + output + more for prompt, output, more in zip(prompts, outputs, beyond, strict=True)]

    blocks = blocks_for(max(most) - 1, block_size)
    blocks += rng.choice([0, 1, rng.randint(0, blocks), rng.randint(0, 8 * blocks)])
    chunked = draw(st.sampled_from([True, True, True, True, False]))
    budget = draw(st.sampled_from([8, 16, 64, 512, 4096]))
    policy = draw(st.sampled_from(policies or (Fcfs, Fcfs, Priority, Sjf, Srpt, Vtc, Capped, PromptsFirst)))
    if policy in (Capped, PromptsFirst):
        chunked = True
    caches = draw(st.booleans())
    limits = Limits(
        num_blocks=blocks,
        block_size=block_size,
        num_host_blocks=draw(st.sampled_from([0, 0, 50, 4])),
        max_num_seqs=draw(st.sampled_from([2, 4, 16, 128])),
        max_num_batched_tokens=budget if chunked else max(budget, *most),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 7])),
        max_model_len=draw(seldom(st.integers(max(prompts) + 1, max(prompts) + 30), 1 << 20)),
        enable_chunked_prefill=chunked,
        enable_prefix_caching=caches,
        watermark=draw(st.sampled_from([0.0, 0.0, 0.0, 0.05])),
    )
    ordered = policy in (Priority, Sjf)
    victims = ["last", "longest", "least_computed", "lowest_priority", "most_remaining", "fewest_outputs", "latest_arrival"]
    seat = ordered and draw(st.booleans())
    rules = Rules(
        preemption_mode=draw(st.sampled_from(["recompute", "swap", "auto"])),
        preempt_for_seat=seat,
        async_scheduling=draw(st.booleans()),
    )
    swap = SwapCost(1000, draw(st.sampled_from([None, 1e-3])), draw(st.sampled_from([0, 1e-4])), draw(st.booleans()))
    latency = LinearLatency(8e-3, draw(st.sampled_from([0, 3e-3])), draw(st.sampled_from([0, 1e-5])), 60e-6, 50e-6, 1e-7)

    span_s = len(rows) * draw(st.sampled_from([0.001, 0.05, 0.3]))
    arrivals = sorted(rng.choice([0.0, rng.random() * span_s]) for _ in rows)
    aborts = [rng.random() * 1.5 * span_s if rng.random() < 0.3 else NAN for _ in rows] if draw(seldom(YES)) else None
    samples = [rng.choice([1, 1, 2, 3]) for _ in rows] if draw(seldom(YES)) else None
    prefix = None
    if caches:
        groups, common, outputs_too = draw(st.integers(1, 3)), draw(st.sampled_from([1, 5, 100])), draw(st.booleans())
        lengths = [prompt + outputs_too * output for prompt, output in zip(prompts, outputs, strict=True)]
        keys = [
            [(row % groups if index < common else row + 10) * 10**6 + index for index in range(length // block_size)]
            for row, length in enumerate(lengths)
        ]
        prefix = SharedContent(keys, block_size)
    trace = Trace(
        "random",
        np.array(arrivals),
        np.array(prompts),
        np.array(outputs),
        request_id=[f"{row:03d}" for row in rows],
        max_tokens=np.array(outputs) + beyond,
        user=[f"u{row % 3}" for row in rows],
        priority=np.array([rng.randint(0, 2) for _ in rows]),
        n=samples,  # type: ignore[arg-type]
        abort_s=aborts,  # type: ignore[arg-type]
        prefix=prefix,  # type: ignore[arg-type]
    )
    # a victim rule that contradicts a preemptive order can thrash for ever (that is a Stall, told as such)
    victim = None if seat or policy.preempts else draw(st.sampled_from([None, *victims]))
    return Case(policy, limits, rules, swap, latency, trace, {} if victim is None else {"victim": victim})


# --- outcomes


def difference(one: Outcome, other: Outcome) -> str | None:
    """The first thing in which two outcomes are not the same to the last bit; wall time is nobody's affair."""
    for each in fields(Outcome):
        name = each.name
        mine, theirs = getattr(one, name), getattr(other, name)
        if name in ("requests", "steps"):
            for column in mine:
                if not _same(mine[column], theirs[column]):
                    return f"{name}.{column}: {mine[column]} and {theirs[column]}"
        elif name.startswith("itl") or name == "wall_s":
            continue
        elif not _same(mine, theirs):
            return f"{name}: {mine} and {theirs}"
    mine, theirs = token_gaps(one), token_gaps(other)
    if mine != theirs:
        return f"inter-token times: {[pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]][:3]}"
    return None


def token_gaps(outcome: Outcome) -> list[tuple[float, float, int]]:
    """(when, how long after its forerunner, how many), sorted; equal ones may be told in several parts."""
    gaps: Counter[tuple[float, float]] = Counter()
    for at_s, itl_s, count in zip(
        *(column.tolist() for column in (outcome.itl_at_s, outcome.itl_s, outcome.itl_count)), strict=True
    ):
        gaps[at_s, itl_s] += count
    return sorted((at_s, itl_s, count) for (at_s, itl_s), count in gaps.items())


def _same(mine: Any, theirs: Any) -> bool:
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    return bool(np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"))
