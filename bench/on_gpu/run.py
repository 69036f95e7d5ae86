"""One run: section after section, the files written anew after each."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.on_gpu.budget import Budget
from bench.on_gpu.items import Facts, Item, Outcome, PartResult, Section
from bench.on_gpu.machine import READINGS, smi, source_commit
from bench.on_gpu.setup import Setup
from bench.on_gpu.summary import summary
from bench.on_gpu.tables import DRY, write_all

RunSection = Callable[[Section, Setup, float, Callable[[Item], None]], list[PartResult]]
ROOT = Path(__file__).resolve().parents[2]


class Run:
    """What has been measured so far, and its files."""

    def __init__(
        self, setup: Setup, planned: list[Section], budget: Budget, words: list[str], run_section: RunSection
    ) -> None:
        self.setup, self.planned, self.budget, self.run_section = setup, planned, budget, run_section
        self.outcomes: list[Outcome] = []
        self.about: dict[str, Any] = {
            "dry_run": setup.dry_run,
            "device": DRY if setup.dry_run else "unknown GPU",
            "command": shlex.join(["python", "bench/gpu.py", *words]),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "complete": False,
            "source": source_commit(ROOT),
            "readings": [],
        }

    def run(self, tell: Callable[[str], None]) -> None:
        """All sections. However one ends, those behind it get their turn."""
        self.write()
        for number, section in enumerate(self.planned):
            allotted_s = self.budget.allotted_s([each.share for each in self.planned[number:]])
            tell(f"{section.name}: up to {allotted_s:.0f} s")
            outcome = Outcome(section.name, allotted_s)
            self.outcomes.append(outcome)
            began_s = self.budget.clock()
            try:
                outcome.parts = self.run_section(section, self.setup, allotted_s, outcome.items.append)
            finally:  # an interruption too leaves behind what there is
                outcome.seconds = self.budget.clock() - began_s
                self._learn(outcome)
                self.write()
            tell(f"{section.name}: {outcome.state} after {outcome.seconds:.0f} s")
        self.about["complete"] = True
        self.about["seconds"] = sum(outcome.seconds for outcome in self.outcomes)
        self.write()

    def write(self) -> None:
        write_all(self.setup.folder, self.about, self.outcomes, summary(self.about, self.outcomes))

    def _learn(self, outcome: Outcome) -> None:
        """Facts of the device, and what its clocks are now."""
        for item in outcome.items:
            if isinstance(item, Facts):
                self.about |= item.values
        if self.setup.dry_run:
            self.about["device"] = DRY
        elif "uuid" in self.about:
            self.about["readings"].append({"after": outcome.name, **smi(self.about["uuid"], READINGS)})
