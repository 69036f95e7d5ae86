"""A log as the simulator's workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twin.calibrate.requests.log import RequestLog


class Contents:
    """Which blocks of prompts are alike, where the log has their token ids: for the prefix cache."""

    def __init__(self, prompts: Sequence[Sequence[int]], block_size: int) -> None:
        self.block_size = block_size
        names: dict[tuple[int, tuple[int, ...]], int] = {}  # (key of the block before, its tokens) -> key
        seen: dict[int, int] = {}
        self.keys: list[list[int]] = []
        for tokens in prompts:
            before, keys = -1, []
            for end in range(block_size, len(tokens) + 1, block_size):
                before = names.setdefault((before, tuple(tokens[end - block_size : end])), len(names))
                keys.append(before)
                seen[before] = seen.get(before, 0) + 1
            self.keys.append(keys)
        self.shared = [sum(seen[key] > 1 for key in keys) for keys in self.keys]  # blocks, a prefix of each prompt

    def shareable_tokens(self) -> np.ndarray:
        """For each request the tokens of the longest prefix, in whole blocks, that another one has too."""
        return np.array(self.shared, np.int64) * self.block_size

    def block_keys(self, index: int, block_size: int, count: int) -> list[int]:
        assert block_size == self.block_size
        return self.keys[index][:count]


class LogWorkload:
    """The requests of a log, as `twin.sim.arrivals.Workload` has them."""

    max_tokens = user = session = think_s = priority = deadline_s = n = abort_s = pauses = closed = None

    def __init__(self, log: RequestLog, block_size: int) -> None:
        self.name = log.source
        self.arrival_s = log.arrival_s
        self.prompt_tokens, self.output_tokens = log.prompt_tokens, log.output_tokens
        self.prefix = None if log.prompt_ids is None else Contents(log.prompt_ids, block_size)
        self._ids = log.request_id

    def __len__(self) -> int:
        return len(self.arrival_s)

    def ids(self) -> list[str]:
        return self._ids

    def pauses_of(self, row: int) -> tuple[Any, ...]:
        return ()
