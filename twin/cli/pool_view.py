"""Looks at the pool after every step of a simulation, for the page that shows it block by block."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.core.limits import Limits
    from twin.core.request import Request
    from twin.core.scheduler import Scheduler
    from twin.core.state import State
    from twin.policy import Policy
    from twin.predictor import Predictor
    from twin.results.pool_page import Frame
    from twin.sim.scenario import Scenario


def too_large(limits: "Limits") -> str | None:
    """Why a pool of this size has no such page, or None."""
    from twin.results.pool_page import MOST_BLOCKS

    pools = (("device", limits.num_blocks, "cache.num_gpu_blocks"), ("host", limits.num_host_blocks, "cache.num_cpu_blocks"))
    over = [(f"{count:,} on the {where}", option) for where, count, option in pools if count > MOST_BLOCKS]
    if not over:
        return None
    there, options = (", ".join(words) for words in zip(*over, strict=True))
    return f"the pool view shows at most {MOST_BLOCKS:,} blocks, and there are {there}; give fewer by {options}"


class PoolWatch:
    """Frames of one simulation, in order; call it with each line of the decision log, when that comes."""

    def __init__(self, scheduler: "Scheduler") -> None:
        from twin.results.pool_page import Frames

        self.scheduler = scheduler
        self.frames = Frames()

    def __call__(self, step: dict[str, Any]) -> None:
        if self.frames.full:
            self.frames.left_out += 1
        else:
            self.frames.add(frame(step, self.scheduler.state))

    def page(self, config: dict[str, Any]) -> str:
        """The page of a run."""
        from twin.results.report import title_of

        return self.html(title_of(config), "The block pool after every step")

    def html(self, title: str, subtitle: str) -> str:
        from twin.results.pool_page import pool_html

        limits, pool = self.scheduler.limits, self.scheduler.state.pool
        return pool_html(
            title,
            f"{subtitle}; {limits.num_blocks:,} blocks of {limits.block_size} tokens",
            self.frames,
            num_blocks=limits.num_blocks,
            block_size=limits.block_size,
            num_host_blocks=limits.num_host_blocks,
            caches=pool.caches,
        )


def frame(step: dict[str, Any], state: "State") -> "Frame":
    """The step's line, and the pool as it is now: after the step."""
    from twin.results.pool_page import Frame, Holder

    pool = state.pool
    placed = sorted((*state.running, *state.swapped, *state.paused), key=_order)
    holders = {
        request.id: Holder(
            request.state,
            request.prompt_tokens,
            request.generated,
            request.computed,
            list(request.block_table),
            dict(request.host_blocks or {}),
        )
        for request in placed
        if request.block_table or request.host_blocks
    }
    order = pool.free_order() if pool.caches else []
    waiting = [request.id for request in sorted(state.waiting, key=_order)]
    return Frame(step, holders, waiting, order[len(order) - pool.num_cached_free :], pool.num_free)


def _order(request: "Request") -> tuple[int, str]:
    return request.index, request.id


def watch_scenario(scenario: "Scenario", policy: "Policy", predictor: "Predictor | None") -> PoolWatch:
    """Plays the scenario and looks at each step; of one whose policy fails, at those before that."""
    from twin.core.errors import PolicyError
    from twin.sim.scenario import ScenarioTrace
    from twin.sim.simulation import Setup, Simulation

    setup = Setup(scenario.limits, policy, scenario.latency, scenario.rules, scenario.swap, predictor)
    simulation = Simulation(setup, ScenarioTrace(scenario), decisions=lambda step: watch(step))
    watch = PoolWatch(simulation.scheduler)
    try:
        simulation.run()
    except PolicyError:
        pass  # whoever played it before has told why
    return watch


def write(path: Path, html: str) -> None:
    """Raises OutputError."""
    from twin.results.atomic import writing

    with writing(path) as handle:
        handle.write(html.encode())
