"""The highest rate that is sustained, where a hand calculation knows it."""

import pytest

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.sustained import sustained_rates

ONE_AT_A_TIME = {
    "system": "textbook", "latency": "linear", "model": "tiny", "gpu": "cpu", "policy": "fcfs", "cache.num_gpu_blocks": 100,
    "scheduler.max_num_seqs": 1, "trace": "synthetic", "trace.prompt_tokens": 4, "trace.output_tokens": 1,
    "trace.arrivals": "constant(1)", "trace.num_requests": 200,
}  # fmt: skip
QUEUE = Experiment("queue", "", "", "", "", {}, ONE_AT_A_TIME, {}, jobs=1)
SERVERS = [{"latency.base_s": 0.5}, {"latency.base_s": 0.25}]  # seconds a request, one after another


def test_a_server_of_so_many_seconds_a_request_sustains_one_in_that_time():
    """Evenly spaced, nobody waits up to 1 / base_s a second; beyond that they wait longer and longer."""
    slow, fast = sustained_rates(QUEUE, SERVERS, (0.5, 16), limit_s=0.6, halvings=5)
    width = 32 ** (0.5**5)
    assert 2 / width <= slow <= 2 * width
    assert 4 / width <= fast <= 4.06 * width  # at 4.06 they wait 100 x (0.25 - 1 / 4.06) = 0.37 s on average


@pytest.mark.parametrize("bounds", [(3, 16), (0.5, 1.5)])
def test_bounds_that_enclose_no_rate_are_refused(bounds: tuple[float, float]):
    with pytest.raises(UserError, match="every server must sustain the lower bound and none the higher one"):
        sustained_rates(QUEUE, SERVERS, bounds, limit_s=0.6, halvings=1)


@pytest.mark.parametrize("bounds", [(2, 1), (1,), (1, 2, 4)])
def test_bounds_are_two_rates_in_order(bounds: tuple[float, ...]):
    with pytest.raises(UserError, match="the lower one first"):
        sustained_rates(QUEUE, SERVERS, bounds, limit_s=0.6, halvings=1)
