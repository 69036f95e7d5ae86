"""What is computed again: by hand, and the way that was published."""

from twin.reproduce.experiment import load
from twin.reproduce.running import simulate
from twin.reproduce.victims import Waste, shares, victims, waste_of

TWO = {"trace.num_requests": 2, "trace.prompt_tokens": 7, "trace.output_tokens": 6, "cache.num_gpu_blocks": 4}


def test_two_requests_of_which_one_begins_again():
    """live-04: 4 blocks of 4. B is preempted once, when it has computed 7 + 1 tokens; the two need 2 x 13."""
    experiment = load("victims", ["jobs=1", "options.system=textbook", "options.cache.block_size=4"])
    (waste,) = simulate(experiment, [TWO], waste_of)
    assert waste == Waste(8, 26)
    assert waste.share == 100 * 8 / 26


def test_smaller_pools_compute_more_again():
    figures = shares(load("victims", ["jobs=1"]))
    assert [figure.direction for figure in figures] == [None, True, True, True]
    assert figures[0].ours == "0 %"  # 32 requests of 87 blocks, 2,784 in all


def test_least_computed_wastes_less_than_last_come():
    figures = victims(load("victims", ["jobs=1", "mixed_requests=60", "mixed_blocks=[1600]"]))
    assert [figure.direction for figure in figures] == [True, True]


def test_of_alike_requests_it_takes_the_same_ones():
    """All came at once: who came last has computed least."""
    experiment = load("victims", ["jobs=1"])
    alike = {"trace.num_requests": 16, "trace.prompt_tokens": 100, "trace.output_tokens": 300, "cache.num_gpu_blocks": 200}
    last, least = simulate(experiment, [{**alike, "policy.victim": name} for name in ("last", "least_computed")], waste_of)
    assert last == least and last.again > 0
