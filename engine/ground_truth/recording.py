"""A recorded run of vLLM: what was asked of it, what it decided in each step, when each step began and ended.

Times are seconds on the one monotonic clock of the run, from its beginning; lengths are tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from twin.core.batch import Features
from twin.core.limits import Limits


class RecordingError(ValueError):
    """A recording cannot be read, or says what cannot be; one line, with file and line."""


@dataclass(frozen=True)
class RecordedRequest:
    """A row of the requests' table, and its prompt where that was kept."""

    id: str
    arrival_s: float  # when it was meant to come: what a client would have measured from
    added_s: float  # when the engine was given it
    prompt_tokens: int
    output_tokens: int
    first_token_s: float
    finish_s: float
    preemptions: int | None = None  # None: not on record
    cached_tokens: int | None = None  # at its first admission
    prompt_ids: list[int] | None = None
    predicted_output: float | None = None  # what a policy was told of its length
    user: str | None = None
    session: str | None = None
    priority: int = 0
    deadline_s: float | None = None  # absolute


class Part(NamedTuple):
    """What one request got in one step."""

    request: str
    tokens: int
    computed: int  # before the step


@dataclass(frozen=True)
class RecordedStep:
    """One call of `schedule()` that scheduled somebody, until `update_from_output()` returned."""

    start_s: float
    end_s: float
    parts: tuple[Part, ...]  # in the order of scheduling
    admitted: tuple[str, ...]
    preempted: frozenset[str]
    free_blocks: int  # after schedule()
    waiting: int
    running: int


@dataclass(frozen=True)
class Settings:
    """What vLLM was told, as far as decisions depend on it, and what its step times are of."""

    limits: Limits
    async_scheduling: bool = False
    vllm: str | None = None  # its version
    policy: dict[str, Any] = field(default_factory=lambda: {"name": "fcfs"})  # name and parameters
    about: dict[str, Any] = field(default_factory=dict)  # model, dtype, ...: runs that differ here have no times in common


@dataclass(frozen=True)
class Recording:
    """One run. Requests in the order in which the engine was given them."""

    name: str
    folder: str
    settings: Settings
    requests: tuple[RecordedRequest, ...]
    steps: tuple[RecordedStep, ...]

    def asks_the_same_as(self, other: Recording) -> bool:
        """It is the other run once more: the same arrivals, lengths, prompts and settings."""
        return self.settings == other.settings and self.has_requests_of(other)

    def has_requests_of(self, other: Recording) -> bool:
        """The same arrivals, lengths and prompts, whatever the settings."""
        return self.asked() == other.asked()

    def asked(self) -> list[tuple[Any, ...]]:
        """All that a simulator may know of the requests."""
        return sorted(
            (row.arrival_s, row.id, row.prompt_tokens, row.output_tokens, row.prompt_ids or (), row.priority)
            for row in self.requests
        )

    def features(self) -> list[Features]:
        """Of each step, what a latency model is told of it."""
        prompts = {row.id: row.prompt_tokens for row in self.requests}
        return [features_of(step.parts, prompts) for step in self.steps]

    def durations_s(self) -> np.ndarray:
        """[steps] from the beginning of a step until the next one can begin: its own time and the usual gap behind it."""
        start_s = np.array([step.start_s for step in self.steps])
        end_s = np.array([step.end_s for step in self.steps])
        gaps_s = start_s[1:] - end_s[:-1]
        usual_s = gaps_s[(gaps_s > 0) & (gaps_s < LONGEST_GAP_S)]
        return end_s - start_s + (float(np.median(usual_s)) if len(usual_s) else 0.0)


LONGEST_GAP_S = 0.005  # between the steps of a busy server; longer ones are idling


def features_of(parts: tuple[Part, ...], prompt_tokens: dict[str, int]) -> Features:
    """A part is prefill while its prompt is not computed, or if it has more than one token (a recomputation)."""
    prefill = decode = context = prefill_context = prefill_parts = 0
    attention = 0.0
    for request, tokens, computed in parts:
        after = computed + tokens
        context += after
        if computed < prompt_tokens[request] or tokens > 1:
            prefill += tokens
            prefill_context += after
            prefill_parts += 1
            attention += tokens * (computed + tokens / 2)
        else:
            decode += tokens
    return Features(len(parts), prefill, decode, context, prefill_context, attention, prefill_parts)
