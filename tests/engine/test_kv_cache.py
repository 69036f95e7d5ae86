"""The KV cache: views and scales, what fits, and blocks that move as if one after the other."""

from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine import kv_cache
from engine.attention.fp8 import FP8, from_cache, to_cache
from engine.errors import EngineError
from engine.kv_cache import DTYPES, KVCache, block_bytes, scales_from
from engine.kv_transfers import BlockTransfers, Run, runs
from tests.engine.attention.cases import DEVICES

SIZES = dict(layers=3, num_blocks=12, block_size=4, kv_heads=2, head_dim=8, device="cpu", num_host_blocks=7)


def make_cache(dtype=torch.float32, **sizes):
    return KVCache(**{**SIZES, "dtype": dtype, **sizes})


def numbered(cache):
    """Every block full of its own number, those on the host from 100 on."""
    numbers = torch.arange(cache.data.shape[2], dtype=torch.float32)
    cache.data.copy_(numbers.view(1, 1, -1, 1, 1, 1).expand(cache.data.shape))
    hosts = torch.arange(100, 100 + cache.num_host_blocks, dtype=torch.float32)
    cache.host_data.copy_(hosts.view(-1, 1, 1, 1, 1, 1).expand(cache.host_data.shape))
    return cache


def numbers(blocks, dim):
    """What each block is full of; a block that is not all the same fails."""
    rows = blocks.movedim(dim, 0).flatten(1).float().cpu()
    assert (rows == rows[:, :1]).all()
    return rows[:, 0].int().tolist()


# --- the pool


def test_a_layer_is_seen_in_blocks_with_one_to_spare():
    cache = make_cache()
    assert cache.k(2).shape == cache.v(0).shape == (13, 4, 2, 8)
    assert cache.spare_block == 12
    cache.v(1)[5, 3] = 1
    assert cache.data[1, 1, 5, 3].eq(1).all() and cache.data.sum() == 2 * 8


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_of_a_block_are_those_allocated(dtype):
    """K and V, 3 layers, 4 tokens, 2 heads of 8: 384 numbers."""
    cache = make_cache(dtype)
    assert cache.block_bytes == block_bytes(3, 4, 2, 8, dtype) == 384 * dtype.itemsize
    assert cache.data.numel() * dtype.itemsize == 13 * cache.block_bytes
    assert cache.host_data.numel() * dtype.itemsize == 7 * cache.block_bytes


def test_llama_3_1_8b_takes_2_mib_a_block():
    """32 layers, 8 KV heads of 128, fp16: 128 KiB a token, as its model card's shape gives."""
    assert block_bytes(32, 16, 8, 128, torch.float16) == 2 << 20


def test_an_integer_cache_is_refused():
    with pytest.raises(EngineError, match="torch.int8 is not supported; it can be one of torch.float32, torch.float16"):
        make_cache(torch.int8)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        # 1536 bytes a block; 100 blocks of memory
        (dict(num_blocks=100), r"cache.num_gpu_blocks=100: .* 0.00 GiB.* cpu has 0.00 GiB free; 99 would fit"),
        (dict(num_blocks=70, num_host_blocks=30), r"cache.num_cpu_blocks=30: .*; 29 would fit"),
    ],
)
def test_more_memory_than_there_is_says_what_would_fit(monkeypatch, sizes, message):
    monkeypatch.setattr(kv_cache, "available_bytes", lambda device: 100 * 1536 + 1535)
    with pytest.raises(EngineError, match=message):
        make_cache(**sizes)


def test_what_just_fits_is_taken(monkeypatch):
    monkeypatch.setattr(kv_cache, "available_bytes", lambda device: 100 * 1536)
    assert make_cache(num_blocks=69, num_host_blocks=30).num_blocks == 69


def test_more_than_any_machine_has():
    with pytest.raises(EngineError, match="would fit"):
        make_cache(num_blocks=1 << 40)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_poison_is_nan_everywhere(dtype):
    cache = make_cache(dtype)
    cache.poison()
    assert cache.data.float().isnan().all() and cache.host_data.float().isnan().all()


# --- scales


def test_scales_are_ones_unless_set():
    cache = make_cache(FP8)
    cache.set_scales(1, 0.5, torch.tensor([2.0, 4.0]))
    assert cache.k_scale(1).tolist() == [0.5, 0.5] and cache.v_scale(1).tolist() == [2.0, 4.0]
    assert cache.k_scale(0).tolist() == cache.v_scale(2).tolist() == [1.0, 1.0]
    assert cache.k_scale(0).dtype == torch.float32


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_is_a_positive_number(scale):
    with pytest.raises(EngineError, match="layer 2: v scales must be positive numbers"):
        make_cache(FP8).set_scales(2, 1.0, scale)


def test_scales_of_another_model():
    with pytest.raises(EngineError, match="layer 0: 3 k scales for 2 KV heads"):
        make_cache(FP8).set_scales(0, torch.ones(3), 1.0)


def test_scales_from_observed_maxima():
    """448 is the largest number of e4m3: the maximum lies exactly on it. A head that was always 0 keeps scale 1."""
    scale = scales_from(torch.tensor([896.0, 44.8, 0.0]))
    torch.testing.assert_close(scale, torch.tensor([2.0, 0.1, 1.0]))
    largest = torch.tensor([[[896.0], [44.8], [0.0]]])
    torch.testing.assert_close(from_cache(to_cache(largest, FP8, scale), scale), largest)


# --- runs


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(4, 9)], [Run(4, 9, 1)]),
        ([(4, 0), (5, 1), (6, 2)], [Run(4, 0, 3)]),
        ([(4, 0), (5, 2)], [Run(4, 0, 1), Run(5, 2, 1)]),  # the targets do not follow one another
        ([(4, 0), (6, 1)], [Run(4, 0, 1), Run(6, 1, 1)]),  # the sources do not
        ([(5, 1), (4, 0)], [Run(5, 1, 1), Run(4, 0, 1)]),  # the order is kept
        ([(0, 5), (1, 6), (9, 7), (10, 8), (2, 3)], [Run(0, 5, 2), Run(9, 7, 2), Run(2, 3, 1)]),
        ([(0, 1), (1, 2), (2, 3)], [Run(0, 1, 3)]),  # two pools: 1 here is not 1 there
    ],
)
def test_runs_by_hand(pairs, expected):
    assert runs(pairs) == expected


def test_runs_of_no_more_than_fits():
    assert runs([(i, i + 20) for i in range(5)], most=2) == [Run(0, 20, 2), Run(2, 22, 2), Run(4, 24, 1)]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0, 3), (1, 4), (2, 5)], [Run(0, 3, 3)]),
        ([(0, 2), (1, 3), (2, 4)], [Run(0, 2, 2), Run(2, 4, 1)]),  # block 2 has just been written
        ([(3, 1), (4, 2), (5, 3)], [Run(3, 1, 2), Run(5, 3, 1)]),
    ],
)
def test_runs_in_one_pool_do_not_overlap(pairs, expected):
    assert runs(pairs, one_pool=True) == expected


# --- transfers


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def test_copy_on_write(device):
    cache = numbered(make_cache(device=device))
    cache.apply([("copy", 3, 8), ("copy", 4, 9), ("copy", 0, 11)])
    assert numbers(cache.data, 2) == [0, 1, 2, 3, 4, 5, 6, 7, 3, 4, 10, 0, 12]


def test_copies_that_follow_one_another(device):
    """0 -> 1 -> 2 -> 3, one after the other: all become 0."""
    cache = numbered(make_cache(device=device))
    cache.apply([("copy", 0, 1), ("copy", 1, 2), ("copy", 2, 3)])
    assert numbers(cache.data, 2)[:5] == [0, 0, 0, 0, 4]


def test_out_then_overwritten_by_one_that_comes_in(device):
    """Block 5 goes to the host and is given at once to what comes from there; then it is copied."""
    cache = numbered(make_cache(device=device))
    cache.apply([("out", 5, 0), ("in", 3, 5), ("copy", 5, 6)])
    assert numbers(cache.data, 2)[4:8] == [4, 103, 103, 7]
    cache.synchronize()
    assert numbers(cache.host_data, 0)[:4] == [5, 101, 102, 103]


def test_in_before_its_place_on_the_host_is_given_away(device):
    cache = numbered(make_cache(device=device))
    cache.apply([("in", 0, 1), ("out", 2, 0), ("in", 0, 3)])
    assert numbers(cache.data, 2)[:4] == [0, 100, 2, 2]
    cache.synchronize()
    assert numbers(cache.host_data, 0)[0] == 2


@pytest.mark.parametrize("staged_blocks", [None, 1, 3], ids=lambda staged: f"staging {staged}")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_transfers_are_as_if_one_after_the_other(device, dtype, staged_blocks):
    """Against copies of single blocks of single layers; with the staging buffer that a GPU has, too."""
    random = torch.Generator().manual_seed(1)
    cache = make_cache(dtype, device=device)
    for data in (cache.data, cache.host_data):
        data.copy_(torch.randn(data.shape, generator=random))
    expected, expected_host = cache.data.clone(), cache.host_data.clone()
    draw = lambda high: int(torch.randint(high, (1,), generator=random))  # noqa: E731
    transfers = []
    for _ in range(60):  # runs of one to four blocks
        way, count = ("out", "in", "copy")[draw(3)], 1 + draw(4)
        source, target = draw((7 if way == "in" else 12) - count + 1), draw((7 if way == "out" else 12) - count + 1)
        if way != "copy" or source != target:
            transfers += [(way, source + i, target + i) for i in range(count)]
    for way, source, target in transfers:
        for kv in range(2):
            for layer in range(3):
                taken = expected_host[source, kv, layer] if way == "in" else expected[kv, layer, source]
                (expected_host[target, kv, layer] if way == "out" else expected[kv, layer, target]).copy_(taken)
    staging_bytes = None if staged_blocks is None else staged_blocks * cache.block_bytes
    moves = BlockTransfers(cache.data, cache.host_data, staging_bytes)
    moves.apply(transfers)
    moves.synchronize()
    assert torch.equal(cache.data.float(), expected.float())
    assert torch.equal(cache.host_data.float(), expected_host.float())


def test_out_and_back_by_other_blocks(device):
    cache = make_cache(torch.bfloat16, device=device)
    cache.data.copy_(torch.randn(cache.data.shape))
    before = cache.data.clone()
    away, back = [7, 3, 4, 5, 0], [9, 10, 11, 1, 2]
    cache.apply([("out", block, host) for host, block in enumerate(away)])
    cache.data.fill_(float("nan"))
    cache.apply([("in", host, block) for host, block in enumerate(back)])
    assert torch.equal(cache.data[:, :, back], before[:, :, away])
    assert cache.data[:, :, [0, 3, 4, 5, 6, 7, 8, 12]].isnan().all()


class RecordedStream(TorchDispatchMode):
    """Stands for the side stream, and notes copies and waits in the order in which they are launched."""

    def __init__(self):
        super().__init__()
        self.launched = []

    @contextmanager
    def transfers(self):
        self.launched.append("waits for the last step")
        with self:
            yield
        self.launched.append("the next step waits for the mark")

    def mark(self):
        self.launched.append("mark")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.copy_.default:
            self.launched.append("copy")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("transfers", "launched"),
    [
        ([("out", 1, 1), ("out", 2, 2)], ["copy", "mark", "copy"]),  # gathered: free to be overwritten; over the link
        ([("in", 1, 1), ("in", 2, 2)], ["copy", "copy", "mark"]),  # over the link, then to its blocks
        ([("copy", 1, 5), ("copy", 2, 6)], ["copy", "mark"]),
        ([("out", 1, 1), ("in", 4, 1)], ["copy", "mark", "copy", "copy", "copy", "mark"]),
        ([("out", i, i) for i in range(4)], ["copy", "mark", "copy"] * 2),  # the buffer holds three blocks
    ],
)
def test_the_next_step_waits_for_what_touches_its_blocks(transfers, launched):
    """What a GPU's stream is told, without a GPU: the mark stands behind the last use of the device's blocks."""
    cache = make_cache()
    moves = BlockTransfers(cache.data, cache.host_data, staging_bytes=3 * cache.block_bytes)
    moves.stream = RecordedStream()
    moves.apply(transfers)
    assert moves.stream.launched == ["waits for the last step", *launched, "the next step waits for the mark"]
    moves.stream.launched.clear()
    moves.apply([])
    assert not moves.stream.launched
