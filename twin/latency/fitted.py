"""A step as a sum of fitted terms, with its range and its error."""

import math
from collections.abc import Mapping

from twin.core.batch import Features
from twin.latency.parameters import check_names, non_negative, positive, section
from twin.latency.piecewise import PiecewiseLatency, Segment

COEFFICIENTS = (
    "base_s",  # every step: weights read, kernel launches
    "host_s",  # every step: scheduling and sampling that the GPU waits for
    "mixed_s",  # a step with prefill: no CUDA graph covers it
    "per_seq_s",
    "per_prefill_token_s",
    "per_decode_token_s",
    "per_decode_context_token_s",  # keys and values read by the decodes
    "per_prefill_context_token_s",  # the same by the prefill parts
    "per_prefill_attention_s",  # query-key pairs of the prefill parts
    "per_prefill_seq_s",
)
ABOUT = ("model", "gpu", "tensor_parallel_size", "source", "licence", "not_known", "error", "swap")
SECTIONS = ("coefficients", "host_full_sequences", "knees", "tiles", "spread", "range", *ABOUT)
RANGES = (*Features._fields, "tokens", "decode_context_tokens")


class FittedLatency(PiecewiseLatency):
    """step = sum of coefficient * feature, each coefficient in seconds and none below zero.

    Beside the terms named in COEFFICIENTS:
    `knees` {tokens: seconds} adds seconds * max(0, tokens of the step - knee): up to the knee the weights' way from
    memory hides the arithmetic, beyond it every token costs (Williams et al., Roofline, CACM 2009);
    `tiles` {tokens: seconds} adds seconds * (tokens of the step rounded up to whole tiles), the cost of padding;
    `host_full_sequences` is the batch from which `host_s` shows in full; below it, in proportion.
    `spread` is the relative standard deviation of measured steps about the fit; `range` {feature: [least, most]} is what
    was measured, `error` {region: {measure: value}} what the fit missed in steps held out from it, in percent. `swap` is the
    link between device and host as measured, which a run takes unless its options say otherwise; `not_known` says in words
    what nobody measured.
    """

    name = "fitted"

    def __init__(self, content: Mapping, where: str = "latency=fitted") -> None:
        super().__init__()
        check_names(where, content, SECTIONS, required=("coefficients", "range", "source"))
        given = section(where, "coefficients", content["coefficients"])
        check_names(f"{where}: coefficients", given, COEFFICIENTS)
        self.coefficients = {name: non_negative(where, name, given.get(name, 0.0)) for name in COEFFICIENTS}
        self.host_full_sequences = positive(where, "host_full_sequences", content.get("host_full_sequences", 1))
        self.knees = self._per_token(where, "knees", content)
        self.tiles = self._per_token(where, "tiles", content)
        self.spread = non_negative(where, "spread", content.get("spread", 0.0))
        self.range = self._ranges(where, content["range"])
        self.about = {name: content[name] for name in ABOUT if name in content}
        self._check_swap(where, content.get("swap") or {})
        if not any((*self.coefficients.values(), *self.knees, *self.tiles)):
            raise ValueError(f"{where}: all coefficients are 0, so time would not advance")

    @staticmethod
    def _per_token(where: str, name: str, content: Mapping) -> list[tuple[float, float]]:
        given = section(where, name, content.get(name) or {})
        return [
            (positive(where, f"{name} at", tokens), non_negative(where, f"{name} {tokens}", seconds))
            for tokens, seconds in given.items()
        ]

    @staticmethod
    def _ranges(where: str, given: object) -> dict[str, tuple[float, float]]:
        given = section(where, "range", given)
        check_names(f"{where}: range", given, RANGES)
        for name, bounds in given.items():
            if not isinstance(bounds, list | tuple) or len(bounds) != 2 or bounds[0] > bounds[1]:
                raise ValueError(f"{where}: range of {name} must be [least, most], not {bounds!r}")
        return {name: (float(bounds[0]), float(bounds[1])) for name, bounds in given.items()}

    @staticmethod
    def _check_swap(where: str, given: object) -> None:
        link = section(where, "swap", given)
        check_names(f"{where}: swap", link, ("bandwidth_gib_s", "per_copy_s"))
        if "bandwidth_gib_s" in link:
            positive(where, "swap bandwidth_gib_s", link["bandwidth_gib_s"])
        non_negative(where, "swap per_copy_s", link.get("per_copy_s", 0.0))

    def decode_segments(self, sequences: int) -> list[Segment]:
        fixed_s = self._common(sequences, sequences) + self.coefficients["per_decode_token_s"] * sequences
        return [Segment(math.inf, fixed_s, self.coefficients["per_decode_context_token_s"])]

    def mixed_step_s(self, features: Features) -> float:
        seconds = self.coefficients
        return (
            self._common(features.prefill_tokens + features.decode_tokens, features.sequences)
            + seconds["mixed_s"]
            + seconds["per_prefill_token_s"] * features.prefill_tokens
            + seconds["per_decode_token_s"] * features.decode_tokens
            + seconds["per_decode_context_token_s"] * (features.context_tokens - features.prefill_context_tokens)
            + seconds["per_prefill_context_token_s"] * features.prefill_context_tokens
            + seconds["per_prefill_attention_s"] * features.prefill_attention
            + seconds["per_prefill_seq_s"] * features.prefill_sequences
        )

    def _common(self, tokens: int, sequences: int) -> float:
        """What depends on the step's tokens and sequences, whatever they are."""
        seconds = self.coefficients["base_s"] + self.coefficients["per_seq_s"] * sequences
        seconds += self.coefficients["host_s"] * min(1.0, sequences / self.host_full_sequences)
        seconds += sum(per_token_s * max(0.0, tokens - knee) for knee, per_token_s in self.knees)
        seconds += sum(per_token_s * tile * math.ceil(tokens / tile) for tile, per_token_s in self.tiles)
        return seconds

    def describe(self) -> dict:
        bent = {"knees": self.knees, "tiles": self.tiles}
        return {
            "name": self.name,
            **self.about,
            "range": {name: list(bounds) for name, bounds in self.range.items()},
            "spread": self.spread,
            "coefficients": {name: value for name, value in self.coefficients.items() if value},
            **({"host_full_sequences": self.host_full_sequences} if self.host_full_sequences != 1 else {}),
            **{name: {int(at): value for at, value in terms} for name, terms in bent.items() if terms},
        }

    def ranges(self) -> dict[str, tuple[float, float]]:
        return self.range
