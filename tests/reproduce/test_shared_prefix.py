"""What sharing a prefix is worth: by hand where only prompt tokens cost time, and the way that was published."""

import pytest

from twin.reproduce.experiment import load
from twin.reproduce.running import simulate
from twin.reproduce.shared_prefix import run, servers, throughput


def test_where_only_prompt_tokens_cost_time_sharing_saves_those_of_the_prefix():
    """300 prompts of 80 shared and 20 own tokens, one output: 100 + 299 x 20 = 6,080 tokens shared, 30,000 else."""
    words = [
        "jobs=1", "requests=300", "rate=1000000", "options.latency=linear", "options.latency.per_prefill_token_s=0.001",
        "options.trace.prompt_tokens=20", "options.trace.output_tokens=1",
    ]  # fmt: skip
    experiment = load("shared_prefix", words)
    shared, apart, orca = simulate(experiment, servers(experiment, 80), throughput)
    assert shared == pytest.approx(300 / 6.08, rel=1e-3)
    assert apart == pytest.approx(300 / 30.0, rel=1e-3)
    assert orca == pytest.approx(300 / 30.0, rel=1e-3)


def test_the_longer_prefix_gains_more():
    figures = run(load("shared_prefix", ["jobs=1", "requests=250"]))
    assert [figure.direction for figure in figures] == [True, None, True, None]
