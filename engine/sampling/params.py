"""How the tokens of one request are chosen, as its sender says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from engine.errors import EngineError

EarlyStopping = bool | Literal["never"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Checked when made: each mistake is an `EngineError` of one line.

    temperature       0 takes the likeliest token (greedy); else logits are divided by it
    top_k             sample among the k likeliest tokens; 0: among all
    top_p             then among the fewest likeliest tokens whose probabilities reach this sum
    seed              of the request's draws; None: the run's
    max_tokens        most tokens to generate, for each sample
    min_tokens        so many are generated before a stop token may come
    stop_token_ids    end the request like the model's own end-of-sequence tokens, which `ignore_eos` turns off
    n                 samples, or with beam search hypotheses, to return
    beam_width        beams of beam search; 1: none
    length_penalty    a hypothesis scores its log-probability / length ** length_penalty
    early_stopping    True: stop at `beam_width` hypotheses; False: when the best beam, at its length now, does not score
                      above the worst of them; "never": when it could not at any length
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    n: int = 1
    beam_width: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False

    def __post_init__(self) -> None:
        need_real("temperature", self.temperature, lambda t: 0 <= t <= 100, "a number from 0 (greedy) to 100")
        need_real("top_p", self.top_p, lambda p: 0 < p <= 1, "a number above 0 and at most 1 (1: no limit)")
        need_real("length_penalty", self.length_penalty, lambda penalty: -5 <= penalty <= 5, "a number from -5 to 5")
        need_whole("top_k", self.top_k, 0, "(0: no limit)")
        if self.seed is not None:
            need_whole("seed", self.seed, None, "or none (the run's seed)")
        need_whole("max_tokens", self.max_tokens, 1)
        need_whole("min_tokens", self.min_tokens, 0)
        need_whole("n", self.n, 1)
        need_whole("beam_width", self.beam_width, 1, "(1: no beam search)")
        if not isinstance(self.ignore_eos, bool):
            raise wrong("ignore_eos", self.ignore_eos, "true or false")
        if not (isinstance(self.early_stopping, bool) or self.early_stopping == "never"):
            raise wrong("early_stopping", self.early_stopping, 'true, false or "never"')
        object.__setattr__(self, "stop_token_ids", token_ids(self.stop_token_ids))
        self.check_together()

    def check_together(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise wrong("min_tokens", self.min_tokens, f"at most max_tokens={self.max_tokens}")
        if self.beam_width == 1:
            if (self.length_penalty, self.early_stopping) != (1.0, False):
                raise EngineError(
                    "sampling: length_penalty and early_stopping belong to beam search: set beam_width above 1"
                )
            return
        if (self.temperature, self.top_p, self.top_k) != (0, 1, 0):
            width = self.beam_width
            raise EngineError(f"sampling: beam_width={width} does not sample: leave temperature=0, top_p=1 and top_k=0")
        if self.n > self.beam_width:
            raise wrong("n", self.n, f"at most beam_width={self.beam_width}, as many hypotheses as beam search keeps")


def wrong(name: str, value: object, right: str) -> EngineError:
    return EngineError(f"sampling: {name}={value!r}: needs {right}")


def need_real(name: str, value: Any, fits: Callable[[Any], bool], right: str) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not fits(value):
        raise wrong(name, value, right)


def need_whole(name: str, value: Any, least: int | None, right: str = "") -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or (least is not None and value < least):
        from_ = "" if least is None else f" from {least} up"
        raise wrong(name, value, f"a whole number{from_} {right}".rstrip())


def token_ids(ids: Any) -> tuple[int, ...]:
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise wrong("stop_token_ids", ids, "a list of token ids")
    for token in ids:
        need_whole("stop_token_ids", token, 0, "each")
    return tuple(ids)
