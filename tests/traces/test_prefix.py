"""Shared prefixes, held against the definition by comparing whole prompts."""

from hypothesis import given
from hypothesis import strategies as st

from tests.shared import shared
from traces import Prefix, open_trace

PROMPTS = st.lists(st.lists(st.integers(-1, 1), max_size=7), min_size=1, max_size=7)


def _common(first, second):
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


@given(prompts=PROMPTS, hash_block_tokens=st.integers(1, 5), partly=st.integers(0, 4), block_size=st.integers(1, 6))
def test_keys_and_shareable_tokens_are_what_comparing_every_pair_says(prompts, hash_block_tokens, partly, block_size):
    missing = partly % hash_block_tokens  # tokens that the last block lacks
    tokens = [max(1, len(prompt) * hash_block_tokens - missing) for prompt in prompts]
    prefix = Prefix.of(prompts, tokens, hash_block_tokens)
    whole = [prompt[: length // hash_block_tokens] for prompt, length in zip(prompts, tokens, strict=True)]

    shareable = prefix.shareable_tokens().tolist()
    for i, prompt in enumerate(whole):
        others = [_common(prompt, other) for j, other in enumerate(whole) if j != i]
        assert shareable[i] == max(others, default=0) * hash_block_tokens
        assert shareable[i] <= tokens[i]

    keys = [prefix.block_keys(i, block_size, length // block_size) for i, length in enumerate(tokens)]
    for i in range(len(whole)):
        for j in range(len(whole)):
            agreed = _common(whole[i], whole[j]) * hash_block_tokens
            for block in range(min(len(keys[i]), len(keys[j]))):
                same = i == j or (block + 1) * block_size <= agreed
                assert (keys[i][block] == keys[j][block]) == same
    assert len({key for row in keys for key in row}) <= sum(map(len, keys))


@given(prompts=PROMPTS, seed=st.randoms())
def test_taking_rows_is_the_same_as_building_from_those_rows(prompts, seed):
    rows = sorted(seed.sample(range(len(prompts)), seed.randint(1, len(prompts))))
    tokens = [max(1, len(prompt)) for prompt in prompts]
    taken = Prefix.of(prompts, tokens, 1).take(rows)
    built = Prefix.of([prompts[row] for row in rows], [tokens[row] for row in rows], 1)
    assert [taken.sequence(i).tolist() for i in range(len(rows))] == [prompts[row] for row in rows]
    assert taken.shareable_tokens().tolist() == built.shareable_tokens().tolist()


def test_pc_13_a_prefix_shorter_than_the_hash_block_gives_no_hits():
    """pc-13: blocks of 512, a common prefix of 300 tokens, then tokens of one's own: nothing can be shared."""
    prompts = [[7] * 300 + [100 + request] * 700 for request in range(3)]
    tokens = Prefix.of(prompts, [1000] * 3, 1)
    assert tokens.shareable_tokens().tolist() == [300] * 3
    assert [length // 512 for length in tokens.shareable_tokens()] == [0, 0, 0]
    assert tokens.minimum_cacheable_tokens(512) == 512

    hashed = Prefix.of([[request, 10 + request] for request in range(3)], [1000] * 3, 512)  # ids of the same prompts
    assert hashed.shareable_tokens().tolist() == [0, 0, 0]
    assert hashed.minimum_cacheable_tokens(16) == 512


def test_synthetic_groups_share_exactly_their_prefix():
    trace = open_trace("synthetic", num_requests=200, prefix_groups=3, prefix_tokens=300, prompt_tokens=50)
    assert trace.prompt_tokens.tolist() == [350] * 200
    assert trace.prefix.shareable_tokens().tolist() == [300] * 200
    keys = [tuple(trace.prefix.block_keys(i, 16, 300 // 16)) for i in range(200)]
    assert len(set(keys)) == 3


def test_mooncake_ids_are_chained_so_that_any_block_key_follows_from_its_last_id():
    trace = open_trace("file", str(shared("traces", "mooncake_fast25", "conversation_trace.jsonl")), num_requests=2000)
    key_of_id: dict[int, int] = {}
    for request, tokens in enumerate(trace.prefix.shareable_tokens().tolist()):
        keys = trace.prefix.block_keys(request, 512, tokens // 512)
        for number, key in zip(trace.prefix.sequence(request).tolist(), keys, strict=False):
            assert key_of_id.setdefault(number, key) == key
    assert len(set(key_of_id.values())) == len(key_of_id)
