"""The tokens that stand for what a trace only counts."""

import zlib

import numpy as np
import pytest

from engine.contents import FIRST_PLAIN_TOKEN, GivenContents, TraceContents, scenario_contents, tokens_of
from engine.sampling.params import SamplingParams
from traces.prefix import Prefix
from traces.trace import Trace
from twin.sim.scenario import ScenarioTrace
from twin.sim.scenario_file import read_scenario

MASK = (1 << 64) - 1
GREEDY = SamplingParams()
GOLDEN = [33414, 42246, 43183, 47112]  # of request 0 with seed 0, 49,152 tokens in the vocabulary


def splitmix64(state: int) -> int:
    """The finalizer of SplitMix64 [Steele, Lea, Flood 2014, doi 10.1145/2714064.2660195], in plain integers."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & MASK
    return state ^ state >> 31


def expected(seed: int, owner: str, position: int, vocab: int) -> int:
    first = 256 if vocab > 512 else 0  # no control tokens, where there are enough others
    key = (zlib.crc32(owner.encode()) << 32) + seed
    return first + splitmix64(position * 0x9E3779B97F4A7C15 + key & MASK) % (vocab - first)


def trace(*prompts: list[int], hash_block_tokens: int = 1) -> Trace:
    """Prompts by the ids of their content."""
    lengths = np.array([len(prompt) * hash_block_tokens for prompt in prompts])
    ones = np.ones(len(prompts), np.int64)
    prefix = Prefix.of(prompts, lengths, hash_block_tokens)
    return Trace("made", np.zeros(len(prompts)), lengths, ones, prefix=prefix)


def contents(trace: Trace, block_size: int = 4, vocab: int = 1000, seed: int = 0) -> TraceContents:
    return TraceContents(trace, block_size, vocab, GREEDY, seed)


@pytest.mark.parametrize("vocab", [2, 97, 512, 513, 49152, 151936])
def test_tokens_are_those_of_an_independent_implementation_and_within_the_vocabulary(vocab):
    for seed, owner, start in ((0, "request 0", 0), (3, "request a", 17), (0, "block 123456789", 0)):
        tokens = tokens_of(seed, owner, start, 50, vocab)
        assert tokens == [expected(seed, owner, start + place, vocab) for place in range(50)]
        assert 0 <= min(tokens) and max(tokens) < vocab
        assert vocab <= 512 or min(tokens) >= FIRST_PLAIN_TOKEN


def test_the_same_today_and_tomorrow():
    assert tokens_of(0, "request 0", 0, 4, 49152) == [expected(0, "request 0", place, 49152) for place in range(4)]
    assert tokens_of(0, "request 0", 0, 4, 49152) == GOLDEN


def test_a_part_is_the_same_as_that_part_of_the_whole():
    whole = tokens_of(1, "request 0", 0, 40, 1000)
    assert tokens_of(1, "request 0", 13, 9, 1000) == whole[13:22]
    assert tokens_of(1, "request 0", 13, 0, 1000) == []


def test_prompts_agree_as_far_as_the_trace_says_in_whole_blocks():
    same, fork = list(range(12)), [*range(8), 70, 71, 72, 73]
    first, second, third, alone = (contents(trace(same, same, fork, [90] * 12)).prompt(row) for row in range(4))
    assert [len(prompt) for prompt in (first, second, third, alone)] == [12] * 4
    assert first == second and first[:8] == third[:8] and first[8:] != third[8:]
    assert first[:4] != alone[:4] and first[:4] != first[4:8]


def test_what_ends_within_a_block_is_not_shared():
    """Six tokens in common are one block of four; of the second, nothing may be found."""
    one, other = (contents(trace([*range(6), 50, 51], [*range(6), 60, 61])).prompt(row) for row in range(2))
    assert one[:4] == other[:4] and one[4:] != other[4:]


def test_hash_blocks_larger_and_smaller_than_the_caches():
    for hash_block_tokens in (2, 8, 16):
        prompts = contents(trace([1, 2, 3, 4], [1, 2, 3, 5], hash_block_tokens=hash_block_tokens))
        one, other = prompts.prompt(0), prompts.prompt(1)
        shared = 3 * hash_block_tokens // 4 * 4
        assert len(one) == len(other) == 4 * hash_block_tokens
        assert one[:shared] == other[:shared] and one[shared:] != other[shared:]


def test_requests_without_anything_in_common_differ_and_so_do_seeds():
    plain = Trace("made", np.zeros(3), np.array([20, 20, 7]), np.ones(3, np.int64))
    prompts = [tuple(contents(plain, seed=seed).prompt(row)) for seed in (0, 1) for row in range(3)]
    assert [len(prompt) for prompt in prompts] == [20, 20, 7] * 2
    assert len({prompt[:7] for prompt in prompts}) == 6


def test_names_not_rows_decide_so_a_part_of_a_trace_says_the_same():
    ids = ["a", "b", "c"]
    whole = Trace("made", np.zeros(3), np.array([9, 9, 9]), np.ones(3, np.int64), request_id=ids)
    part = whole.take(np.array([1, 2]))
    assert contents(whole).prompt(1) == contents(part).prompt(0)


def test_what_a_tool_returns_goes_on_where_the_context_is():
    plain = Trace("made", np.zeros(1), np.array([5]), np.ones(1, np.int64))
    given = contents(plain)
    assert given.answer(0, 9, 3) == [expected(0, "request 0", place, 1000) for place in (9, 10, 11)]
    assert given.prompt(0) == [expected(0, "request 0", place, 1000) for place in range(5)]


def test_given_prompts_are_as_they_are():
    given = GivenContents([[5, 6], [7]], [GREEDY, SamplingParams(temperature=1)], 100)
    assert given.prompt(0) == [5, 6] and given.sampling(1).temperature == 1
    assert given.answer(1, 3, 2) == [expected(0, "answer to 1", place, 100) for place in (3, 4)]


def test_ids_of_a_scenario_are_folded_into_the_vocabulary():
    rows = [
        {"id": "A", "prompt": "510-513,7", "output_tokens": 2},
        {"id": "B", "prompt_tokens": 3, "output_tokens": 5, "n": 2},
    ]
    scenario = read_scenario({"cache": {"num_gpu_blocks": 8}, "requests": rows}, "here")
    given = scenario_contents(ScenarioTrace(scenario).rows, 512)
    assert given.prompt(0) == [510, 511, 0, 1, 7]
    assert given.prompt(1) == [expected(0, "request B", place, 512) for place in range(3)]
    assert (given.sampling(1).n, given.sampling(1).max_tokens, given.sampling(1).ignore_eos) == (2, 5, True)
