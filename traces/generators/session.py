"""How the context of a coding agent grows, is compacted and rewritten: the model behind `trace=agent`.

Fitted to 692 Claude Code sessions of kv-cache-tester (Apache-2.0); figures in fits/agent.json. A session has

- a number of turns, and by its class (of five) a chance to have the large window, of 1,000,000 tokens and not 200,000;
- a first context by inversion of the quantiles of its class and window: some sessions resume a long conversation;
- from turn to turn a growth, exp(mean of the turn's class + session's own effect + residual): early turns read more,
  long sessions grow slower; the session's effect is normal, and correlated with its first context;
- a hazard of compaction that depends on context and window, certain at the window's end, to a fraction by inversion of
  quantiles; system prompt and tools are kept;
- at 1.7 % of the turns a rewrite: the context loses nothing, but from some point on its content is new (a tool's result
  cleared, a subagent's turn between).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from traces.generators.fit import Quantiles, figures
from traces.streams import Stream

HASH_BLOCK_TOKENS = 64  # as in the source
SMALL_WINDOW, LARGE_WINDOW = 200_000, 1_000_000  # tokens
LEAST_CONTEXT = 6_000  # tokens after a compaction: tools and system prompt
NORMALS = np.linspace(-4, 4, 81)
NORMAL_LEVELS = np.array([NormalDist().cdf(normal) for normal in NORMALS])  # what levels they stand for
LONGEST_ANSWER_SHARE = 0.25  # of a given limit of the context


class Sessions:
    """Sessions at the same turn: arrays of one entry a session. `advance` takes them to the next.

    `number` names the session, and with the turn the random numbers it gets; `turn` is 1, 2, ... of `turns`.
    """

    def __init__(self, seed: int, number: np.ndarray, limit: int | None = None) -> None:
        self.seed, self.limit, self.turn = seed, limit, 1
        self.fit: dict[str, Any] = figures("agent")
        self.number = number
        self.turns = Quantiles.of(**self.fit["turns"]).tokens(self.uniforms("turns"))
        kind = np.searchsorted(self.fit["turn_classes"], self.turns, side="right") - 1
        self.large = (self.uniforms("window") < np.array(self.fit["large_window_share"])[kind]).astype(np.int64)
        level, self.context = self.uniforms("first"), np.empty(len(number))
        levels, first = self.fit["first_context"]["levels"], self.fit["first_context"]["values"]
        for row, windows in enumerate(first):
            for large, values in enumerate(windows):
                chosen = (kind == row) & (self.large == large)
                self.context[chosen] = Quantiles.of(levels, values).at(level[chosen])
        mean, deviation = np.array(self.fit["growth_session_effect"])[kind, self.large].T
        shared = np.array(self.fit["growth_first_correlation"])[self.large]
        first_normal = np.interp(level, NORMAL_LEVELS, NORMALS)
        own_normal = Stream(seed, "agent/effect").normals(number)
        self.effect = mean + deviation * (shared * first_normal + np.sqrt(1 - shared**2) * own_normal)
        self.think_s = np.zeros(len(number))
        self.kept_blocks = np.zeros(len(number), np.int64)
        if limit is not None:
            self.context = np.minimum(self.context, limit * (1 - LONGEST_ANSWER_SHARE))
        self._answer()

    def uniforms(self, purpose: str) -> np.ndarray:
        """One number for each session at this turn."""
        return Stream(self.seed, f"agent/{purpose}").uniforms(self.number, self.turn)

    def columns(self) -> dict[str, np.ndarray]:
        """What is known of this turn of each session."""
        return {
            "session": self.number,
            "turn": np.full(len(self.number), self.turn),
            "prompt_tokens": np.rint(self.context).astype(np.int64),
            "output_tokens": self.output,
            "think_s": self.think_s,
            "kept_blocks": self.kept_blocks,
        }

    def answer_s(self) -> np.ndarray:
        """Seconds that the source's service took for such a turn: linear in prompt and output."""
        fit = self.fit["api_s"]
        return fit["intercept"] + fit["per_output_token"] * self.output + fit["per_prompt_token"] * self.context

    def advance(self, running: np.ndarray) -> None:
        """The next turn of the sessions that `running` marks; the others are gone."""
        for name in ("number", "turns", "large", "context", "effect", "output"):
            setattr(self, name, getattr(self, name)[running])
        self.turn += 1
        before = self.context
        grown, compacted = self._grown(before)
        self.context = grown
        blocks = np.minimum(before, grown).astype(np.int64) // HASH_BLOCK_TOKENS
        self.kept_blocks = self._kept(before, blocks, compacted)
        tool = self.uniforms("tool") < self.fit["tool_turn_share"]
        pause, level = self.fit, self.uniforms("think")
        tool_s, user_s = (Quantiles.of(**pause[name]).at(level) for name in ("tool_think_s", "user_think_s"))
        self.think_s = np.where(tool, tool_s, user_s)
        self._answer()

    def _grown(self, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The next contexts in tokens, and which of them are compacted ones."""
        fit = self.fit
        stage = int(np.searchsorted(fit["growth_turn_classes"], self.turn - 1, side="right")) - 1
        residual = Quantiles.of(fit["growth_residual"]["levels"], fit["growth_residual"]["values"][stage])
        growth = np.exp(fit["growth_log_mean"][stage] + self.effect + residual.at(self.uniforms("growth")))
        grown = before + growth
        full = np.searchsorted(fit["compaction_contexts"], before, side="right") - 1
        compacted = self.uniforms("compact") < np.array(fit["compaction_hazard"])[self.large, full]
        compacted |= grown > np.where(self.large, LARGE_WINDOW, SMALL_WINDOW)
        if self.limit is not None:
            compacted |= grown > (1 - LONGEST_ANSWER_SHARE) * self.limit
        level, levels = self.uniforms("ratio"), fit["compaction_ratio"]["levels"]
        small, large = (Quantiles.of(levels, values).at(level) for values in fit["compaction_ratio"]["values"])
        left = np.minimum(np.maximum(before * np.where(self.large, large, small), LEAST_CONTEXT), before)
        return np.where(compacted, left, grown), compacted

    def _kept(self, before: np.ndarray, blocks: np.ndarray, compacted: np.ndarray) -> np.ndarray:
        """Blocks of the previous prompt that begin this one, of the `blocks` that both have."""
        fit, level = self.fit, self.uniforms("kept")
        replaced = self.uniforms("last") < fit["last_block_replaced"]
        kept = np.where(replaced, np.maximum(blocks - 1, 0), blocks)
        rewritten = self.uniforms("rewrite") < fit["rewrite_probability"]
        kept = np.where(rewritten, (Quantiles.of(**fit["rewrite_kept_share"]).at(level) * blocks).astype(np.int64), kept)
        tools = Quantiles.of(**fit["compaction_kept_tokens"]).at(level).astype(np.int64) // HASH_BLOCK_TOKENS
        return np.where(compacted, np.minimum(tools, blocks), kept)

    def _answer(self) -> None:
        """The lengths of the answers of this turn, in tokens."""
        self.output = Quantiles.of(**self.fit["output"]).tokens(self.uniforms("output"))
        if self.limit is not None:
            self.output = np.minimum(self.output, int(LONGEST_ANSWER_SHARE * self.limit))
