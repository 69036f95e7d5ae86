"""Where predictions of output lengths come from.

A policy learns of an output length through `request.predicted_output` alone, and a `Predictor` is who fills that in. It is
asked once a request, when the scheduler is about to see it, in the simulator as in an engine.

    class Half(Predictor):
        '''Half of what the request allows itself.'''

        def predict(self, request, output_tokens):
            return (request.max_tokens or 1000) / 2

What a predictor may know is what it declares: `output_tokens` is None unless `needs_length` is True.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from twin import keyed_draws


class Predictor:
    """The base of all predictors. `request` is the read-only view that a policy has of it; lengths are tokens."""

    seed: int = 0
    """Of the run; whoever makes the predictor sets it. Draw by `uniform`, and the same request has the same prediction
    under every policy, whenever it comes."""
    needs_length: bool = False
    """It works on the true lengths, as an oracle and its noisy kin do, so it can be had only where a trace tells them.
    A predictor that leaves this alone is never given one before its request has ended."""
    predicts: bool = True
    """False: no request ever gets a prediction, and policies that need one are refused."""
    on_finish: Callable[..., Any] | None = None
    """on_finish(request, generated_tokens): it came to its end, neither rejected nor aborted. Of a request of several
    samples the tokens are their mean, and `request` is the first one, `ID.0`."""

    def prepare(self, output_tokens: Sequence[int]) -> None:
        """Before the first request, if `needs_length`: the true lengths of all the trace, in its order."""

    def predict(self, request: Any, output_tokens: int | None) -> float | None:
        """Tokens that it will put out, or None: no prediction. What is below 1 is taken for 1."""
        raise NotImplementedError("a predictor defines predict(self, request, output_tokens)")

    def predict_all(self, request_ids: Sequence[str], output_tokens: Sequence[int]) -> list[float] | None:
        """What `predict` says of each request of a trace, all at once, if `needs_length`: so it is faster.

        None: it depends on more than id and length, and `predict` is asked of one after the other.
        """
        return None

    def uniform(self, request_id: str, purpose: str = "") -> float:
        """A draw from the open interval (0, 1) that depends on seed, request and purpose alone."""
        return keyed_draws.uniform(self._stream(purpose), request_id)

    def uniforms(self, request_ids: Sequence[str], purpose: str = "") -> list[float]:
        """`uniform` of each, at once."""
        return keyed_draws.uniforms(self._stream(purpose), request_ids)

    def _stream(self, purpose: str) -> int:
        streams, key = self.__dict__.setdefault("_streams", {}), (self.seed, purpose)
        if key not in streams:
            streams[key] = keyed_draws.stream(self.seed, purpose)
        found: int = streams[key]
        return found


def as_tokens(value: Any) -> float | None:
    """A prediction as policies get it: at least 1 token, or None. Raises ValueError where it is no finite number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise ValueError(f"a prediction must be a finite number of tokens, or None, not {value!r:.100}")
    tokens: float = value if type(value) in (int, float) else float(value)  # type: ignore[assignment]
    return tokens if tokens >= 1 else 1
