"""A request of a scenario on its way through vLLM: what the fake model says to it, and what became of it."""

from __future__ import annotations

from typing import Any

from engine.oracle.build import STOP
from twin.sim.scenario_file import ScenarioRequest

Row = dict[str, Any]


class Followed:
    """A request of the scenario, and what became of it."""

    def __init__(self, row: ScenarioRequest, place: int) -> None:
        self.row, self.place = row, place
        self.ids = [10**9 + place * 10**6 + i for i in range(row.prompt_tokens)]
        if row.tokens is not None:
            self.ids = [token + 1000 for token in row.tokens]
        self.most = row.max_tokens or row.output_tokens
        self.request: Any = None  # vLLM's
        self.status = "unfinished"
        self.reason: str | None = None
        self.token_times_s: list[float] = []
        self.cached: int | None = None
        self.preemptions = self.recomputed = self.high_water = 0

    def token(self, computed: int) -> int:
        """What the model says after so many tokens."""
        generated = computed - len(self.ids) + 1
        if generated == self.row.output_tokens and generated < self.most:
            return STOP
        return 2 * 10**9 + self.place * 10**6 + computed

    def told(self) -> Row:
        times = self.token_times_s
        return {
            "status": self.status,
            "reason": self.reason,
            "first_token_s": times[0] if times else None,
            "finish_s": times[-1] if times and self.status == "finished" else None,
            "token_times_s": times,
            "cached_tokens": self.cached or 0,
            "preemptions": self.preemptions,
            "recomputed_tokens": self.recomputed,
        }
