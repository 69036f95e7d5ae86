"""What a failing scenario is made of, before it is printed."""

import yaml

from tests.vllm.differences import scenario_file, smallest
from tests.vllm.random_scenarios import random_scenario
from twin.sim.scenario_file import read_scenario


def test_all_that_does_not_matter_is_taken_away() -> None:
    """As if a request of 5 or more tokens with prefix caching were what fails."""

    def fails(content: dict) -> bool:
        long_ones = [row for row in content["requests"] if row.get("prompt_tokens", 0) >= 5]
        return bool(long_ones) and content["cache"]["enable_prefix_caching"]

    seed = next(seed for seed in range(100) if fails(random_scenario(seed, "0.32", False)))
    small = smallest(random_scenario(seed, "0.32", False), fails)
    assert fails(small)
    (row,) = small["requests"]
    assert (row["prompt_tokens"], row["output_tokens"], row["arrival_s"]) == (5, 1, 0.0)
    assert row.keys() == {"id", "arrival_s", "prompt_tokens", "output_tokens"}
    assert small["cache"]["watermark"] == 0.0 and small["latency"] == {"base_s": 1.0}
    assert small["scheduler"]["max_num_seqs"] == 256 and small["policy"] == {"name": "fcfs"}


def test_it_is_printed_as_a_file_that_says_the_same() -> None:
    for seed in range(20):
        content = random_scenario(seed, "0.32", asynchronous=bool(seed % 2))
        read = yaml.safe_load(scenario_file(content))
        assert read == content
        read_scenario(read, "here")
