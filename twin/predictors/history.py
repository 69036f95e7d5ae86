"""What requests of the same kind have needed so far."""

from heapq import heappush, heappushpop
from math import ceil
from typing import Literal

from twin.predictor import Predictor


class History(Predictor):
    """The mean, or a quantile, of the finished requests of the same user or session, or of all.

    Nothing is known beforehand: it learns from requests that have finished when the one to be predicted comes. That is
    what a server can do without a model; it finds out users and sessions whose answers are alike.
    """

    def __init__(
        self,
        by: Literal["user", "session", "all"] = "user",
        quantile: float | None = None,
        prior: float = 200.0,
    ) -> None:
        """Parameters:

        by: whose finished requests count. Requests without a user (session) count as one user's (session's).
        quantile: the length that this share of them did not exceed, above 0 and below 1; null: their mean.
        prior: the prediction as long as none has finished, tokens.
        """
        if quantile is not None and not 0 < quantile < 1:
            raise ValueError(f"quantile must be above 0 and below 1, not {quantile:g}")
        if not 1 <= prior < float("inf"):
            raise ValueError(f"prior must be at least 1 token, not {prior:g}")
        self.by, self.quantile, self.prior = by, quantile, prior
        self.groups: dict[str | None, _Mean | _Quantile] = {}

    def predict(self, request, output_tokens):
        known = self.groups.get(self._group(request))
        return self.prior if known is None else known.value

    def on_finish(self, request, generated_tokens):
        group = self._group(request)
        if group not in self.groups:
            self.groups[group] = _Mean() if self.quantile is None else _Quantile(self.quantile)
        self.groups[group].add(generated_tokens)

    def _group(self, request):
        return None if self.by == "all" else getattr(request, self.by)


class _Mean:
    """A running mean."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0

    def add(self, length: float) -> None:
        self.count += 1
        self.total += length

    @property
    def value(self) -> float:
        return self.total / self.count


class _Quantile:
    """A running quantile: the ceil(share * count)-th smallest. Two heaps, so that another costs log(count)."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.lower: list[float] = []  # the smallest so many, negated: their largest is the quantile
        self.upper: list[float] = []

    def add(self, length: float) -> None:
        lower, upper = self.lower, self.upper
        count = len(lower) + len(upper) + 1
        if len(lower) < ceil(self.share * count - 1e-9):  # below belong these; 0.1 * 30 is 3.0000000000000004
            heappush(lower, -heappushpop(upper, length))
        else:
            heappush(upper, -heappushpop(lower, -length))

    @property
    def value(self) -> float:
        return -self.lower[0]
