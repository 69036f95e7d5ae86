"""The bucket of lengths that a request falls into."""

from bisect import bisect_left
from typing import Literal

from twin.predictor import Predictor

FIRST = 32  # the default


class Bucket(Predictor):
    """Which bucket of lengths a request falls into, right so often, else the one next to it.

    So predict classifiers: Jin et al., "S3: increasing GPU utilization during generative inference for higher
    throughput" (NeurIPS 2023); Qiu et al., "Efficient interactive LLM serving with proxy model-based sequence length
    prediction" (2024). A bucket holds the lengths above the upper edge of the one before, up to its own.
    """

    needs_length = True

    def __init__(
        self,
        buckets: int = 10,
        edges: Literal["quantiles", "doubling"] = "quantiles",
        first: int = FIRST,
        accuracy: float = 1.0,
        value: Literal["mid", "upper"] = "mid",
    ) -> None:
        """Parameters:

        buckets: how many. Quantiles that coincide make fewer.
        edges: quantiles: equally many requests of the trace in each; doubling: upper edges first, 2 first, 4 first, ...
            tokens, and whatever is longer counts to the last.
        first: of doubling: the upper edge of the first bucket, in tokens.
        accuracy: how probably the right bucket is named, 0 to 1; else a neighbour is, either alike.
        value: what is predicted: the middle of the lengths in the bucket, or its upper edge.
        """
        if not 1 <= buckets <= 1000:
            raise ValueError(f"buckets must be from 1 to 1000, not {buckets}")
        if edges == "doubling" and buckets > 40:
            raise ValueError(f"buckets must be at most 40 when they double, not {buckets}")
        if first < 1:
            raise ValueError(f"first must be at least 1 token, not {first}")
        if edges != "doubling" and first != FIRST:
            raise ValueError(f"first={first} belongs to edges=doubling, and edges is {edges}")
        if not 0 <= accuracy <= 1:
            raise ValueError(f"accuracy must be from 0 to 1, not {accuracy:g}")
        self.buckets, self.edges, self.first, self.accuracy, self.value = buckets, edges, first, accuracy, value
        self.upper: list[int] = []  # edge of each bucket
        self.named: list[float] = []  # what is predicted for each

    def prepare(self, output_tokens):
        lengths, count = sorted(output_tokens), self.buckets
        if self.edges == "doubling":
            self.upper, least = [self.first << place for place in range(count)], 1
        elif lengths:
            last_ones = (-(-place * len(lengths) // count) - 1 for place in range(1, count + 1))
            self.upper, least = sorted({lengths[max(place, 0)] for place in last_ones}), lengths[0]
        else:
            self.upper, least = [1], 1
        lowest = [least, *(edge + 1 for edge in self.upper[:-1])]
        middles = [(low + high) / 2 for low, high in zip(lowest, self.upper, strict=True)]
        self.named = middles if self.value == "mid" else list(map(float, self.upper))

    def predict(self, request, output_tokens):
        return self._named(output_tokens, self.uniform(request.id, "bucket"))

    def predict_all(self, request_ids, output_tokens):
        return list(map(self._named, output_tokens, self.uniforms(request_ids, "bucket")))

    def _named(self, length, drawn):
        last = len(self.upper) - 1
        place = min(bisect_left(self.upper, length), last)
        if last and (beyond := drawn - self.accuracy) >= 0:  # of 1 - accuracy, one half to either side
            lower = place == last or (place > 0 and beyond < (1 - self.accuracy) / 2)
            place += -1 if lower else 1
        return self.named[place]
