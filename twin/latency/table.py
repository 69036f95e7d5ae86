"""Steps put together from measured kernel times."""

import math
from dataclasses import dataclass

from twin.core.batch import Features
from twin.latency.parameters import non_negative, positive
from twin.latency.piecewise import PiecewiseLatency, Segment
from twin.latency.surface import Knots, Surface, line_at


@dataclass(frozen=True)
class KernelTables:
    """What was measured of one model on one GPU; all times in seconds for all layers together.

    `dense` is over the tokens of the step (projections, norms, activation, embedding), `head` over its sequences (logits
    and sampling), `decode_attention` over (decoding sequences, mean context), `prefill_attention` over (prefill tokens,
    keys per query), where keys per query = query-key pairs / prefill tokens.
    """

    dense: Knots
    head: Knots
    decode_attention: Surface
    prefill_attention: Surface
    source: str = ""


class TableLatency(PiecewiseLatency):
    """step = host + dense(tokens) + head(sequences) + attention, and mixed_s more if the step holds prefill.

    Kernel times alone leave out what the host adds: `host_s` a step (in full from `host_full_sequences` sequences on, in
    proportion below), and `mixed_s` for steps with prefill, which CUDA graphs do not cover. Without them the time per
    output token is low by all of it (Vidur, issue 63).
    """

    name = "table"

    def __init__(
        self, tables: KernelTables, host_s: float = 0.0, mixed_s: float = 0.0, host_full_sequences: float = 1
    ) -> None:
        super().__init__()
        self.tables = tables
        self.host_full_sequences = positive("latency=table", "host_full_sequences", host_full_sequences)
        self.host_s = non_negative("latency=table", "host_s", host_s)
        self.mixed_s = non_negative("latency=table", "mixed_s", mixed_s)

    def decode_segments(self, sequences: int) -> list[Segment]:
        fixed_s = self._without_attention(sequences, sequences)
        row = self.tables.decode_attention.row(sequences)
        floor = self.tables.decode_attention.floor
        pieces = []
        for index, context in enumerate(row[0]):
            value, slope = line_at(row, context)
            below = math.inf if index == len(row[0]) - 1 else row[0][index + 1] * sequences
            per_token = slope / sequences
            pieces.append(Segment(below, fixed_s + value - per_token * context * sequences, per_token))
        first = Segment(row[0][0] * sequences, fixed_s + max(row[1][0], floor), 0.0)  # flat below the least measured
        return [first, *pieces]

    def mixed_step_s(self, features: Features) -> float:
        tables, prefill = self.tables, features.prefill_tokens
        step_s = self.mixed_s + self._without_attention(prefill + features.decode_tokens, features.sequences)
        step_s += tables.prefill_attention.value(prefill, features.prefill_attention / prefill)
        if features.decode_tokens:
            context = features.context_tokens - features.prefill_context_tokens
            step_s += tables.decode_attention.value(features.decode_tokens, context / features.decode_tokens)
        return step_s

    def _without_attention(self, tokens: int, sequences: int) -> float:
        host_s = self.host_s * min(1.0, sequences / self.host_full_sequences)
        return host_s + line_at(self.tables.dense, tokens)[0] + line_at(self.tables.head, sequences)[0]

    def describe(self) -> dict:
        return {
            "name": self.name,
            "source": self.tables.source,
            "host_s": self.host_s,
            "host_full_sequences": self.host_full_sequences,
            "mixed_s": self.mixed_s,
            "range": {name: list(bounds) for name, bounds in self.ranges().items()},
        }

    def ranges(self) -> dict[str, tuple[float, float]]:
        tables = self.tables
        sequences, context = tables.decode_attention.bounds()
        prefill, _ = tables.prefill_attention.bounds()
        return {
            "tokens": (tables.dense[0][0], tables.dense[0][-1]),
            "sequences": (sequences[0], sequences[1]),
            "mean_decode_context": (context[0], context[1]),
            "prefill_tokens": (prefill[0], prefill[1]),
        }
