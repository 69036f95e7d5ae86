"""What lay outside the range of a latency model is told once, with its share of the steps."""

import numpy as np

from twin.latency.model import LatencyModel
from twin.sim.coverage import steps_outside


class Measured(LatencyModel):
    name = "measured"

    def ranges(self):
        return {"sequences": (1, 64), "prefill_tokens": (16, 8192), "decode_context_tokens": (1, 1000)}


def test_shares_are_of_steps_and_absent_features_are_never_outside():
    steps = {
        "repeat": np.array([6, 1, 3]),
        "sequences": np.array([64, 70, 65]),
        "prefill_tokens": np.array([0, 16, 0]),
        "decode_tokens": np.array([64, 69, 65]),
        "context_tokens": np.array([1000, 5000, 900]),
    }
    (note,) = steps_outside(Measured(), steps)
    assert note == (
        "latency=measured: sequences of 40 % of the steps outside the range 1 to 64 that it was fitted on: "
        "65 to 70; there it extrapolates"
    )


def test_a_model_without_a_range_is_never_outside():
    assert (
        steps_outside(
            LatencyModel(),
            {
                "repeat": np.array([1]),
                "prefill_tokens": np.array([9]),
                "decode_tokens": np.array([0]),
                "context_tokens": np.array([9]),
            },
        )
        == []
    )
