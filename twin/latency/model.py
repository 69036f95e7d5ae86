"""What every step-latency model answers."""

import math

from twin.core.batch import Features


class LatencyModel:
    """Seconds that a step takes, from what it consists of.

    A model says what a step costs, never when it starts: time belongs to the simulator. Subclasses give `step_s` and
    `decode_step_s`; those whose decode steps are straight lines in the context length derive from
    `twin.latency.piecewise.PiecewiseLatency`, which makes long stretches cheap.
    """

    name = ""

    def step_s(self, features: Features) -> float:
        """Seconds of one step. A pure decode step takes exactly `decode_step_s`, to the last bit."""
        raise NotImplementedError

    def decode_step_s(self, sequences: int, context_tokens: int) -> float:
        """Seconds of a step in which each of `sequences` yields one token and none is prefilled.

        `context_tokens` is the sum over the sequences of the context length after the step.
        """
        return self.step_s(Features(sequences, 0, sequences, context_tokens))

    def stretch(self, start_s: float, sequences: int, context_tokens: int, steps: int, until_s: float) -> list[float]:
        """End times of at most `steps` decode steps, up to and including the first that ends at or after `until_s`.

        `context_tokens` is the sum after the first of them and grows by `sequences` a step. The times are those of
        `decode_step_s` added one by one to `start_s`: equal to the last bit, which keeps fast-forward exact.
        """
        ends: list[float] = []
        now = start_s
        for context in range(context_tokens, context_tokens + steps * sequences, sequences):
            now += self.decode_step_s(sequences, context)
            ends.append(now)
            if now >= until_s:
                break
        return ends

    def take_back(self, steps: int) -> None:
        """The last `steps` of a stretch were not launched: a model that counts its steps will be asked for them again."""

    def expected(self) -> "LatencyModel":
        """The same without noise: what can be said of a step before it is launched."""
        return self

    def describe(self) -> dict:
        """Name, source, fitted range and error, as plain values for `config.yaml` and the terminal."""
        return {"name": self.name}

    def ranges(self) -> dict[str, tuple[float, float]]:
        """(least, most) of each feature in the steps on which the model was measured or fitted; beyond it extrapolates.

        Features by their names in `Features` and `steps.parquet`, or tokens, decode_context_tokens, mean_decode_context.
        """
        return {}


class LatencyError(ValueError):
    """The model cannot say how long a step takes."""


def checked(duration_s: float, name: str, features: Features | tuple[int, int]) -> float:
    """The duration, if it is one."""
    if 0.0 <= duration_s < math.inf:
        return duration_s
    raise LatencyError(
        f"latency={name}: a step of {features} takes {duration_s} s; the times that it is made of must be finite"
    )
