"""The torch back end against the definition, on the cases of all back ends and on what is its own."""

import pytest
import torch

from engine.attention import torch_backend
from engine.attention.fp8 import FP8
from engine.attention.torch_backend import TorchAttention
from tests.engine.attention.cases import CASES, DEVICES, attend, make_case, run

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MIXED = CASES["mixed"]


@pytest.mark.parametrize("cache_dtype", [None, FP8], ids=["same cache", "fp8 cache"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", DEVICES)
def test_equals_the_definition(device, name, dtype, cache_dtype):
    case = make_case(**CASES[name], dtype=dtype, cache_dtype=cache_dtype, device=device)
    case.check(run(TorchAttention(), case))


@pytest.mark.parametrize("dim", [16, 32, 80, 96, 128, 256])
def test_any_head_size(dim):
    case = make_case(**MIXED, dim=dim)
    case.check(run(TorchAttention(), case))


@pytest.mark.parametrize("block_size", [1, 8, 32])
def test_any_block_size(block_size):
    case = make_case(**MIXED, block_size=block_size)
    case.check(run(TorchAttention(), case))


def test_a_cache_of_another_dtype_than_the_model():
    case = make_case(**MIXED, dtype=torch.float32, cache_dtype=torch.bfloat16)
    case.check(run(TorchAttention(), case))


@pytest.mark.parametrize("seed", range(8))
def test_random_batches(seed):
    random = torch.Generator().manual_seed(seed)
    draw = lambda low, high, count: torch.randint(low, high, (count,), generator=random).tolist()  # noqa: E731
    decodes, prefills, padding = draw(0, 6, 3)
    lens = [1] * decodes + draw(2, 40, prefills)
    contexts = [rows + before for rows, before in zip(lens, draw(0, 60, len(lens)), strict=True)]
    case = make_case(lens, contexts, padding=padding if lens else 1, seed=seed, block_size=draw(1, 20, 1)[0])
    case.check(run(TorchAttention(), case))


@pytest.mark.parametrize("block_size", [4, 16])
def test_contexts_at_the_edges_of_blocks(block_size):
    """eng-04: tables padded with -1 behind contexts of b - 1, b, b + 1 and 2 b; all that the tables do not name is NaN."""
    edges = [block_size - 1, block_size, block_size + 1, 2 * block_size]
    case = make_case([1] * 4 + [2] * 4, edges * 2, block_size=block_size)
    assert (case.batch.block_tables[:, -1] == -1).all()
    case.check(run(TorchAttention(), case))


@pytest.mark.parametrize("decodes", [5, 0])
def test_padding_never_writes_to_the_last_slot_of_the_pool(decodes):
    """eng-01: batches padded to 8 with slot -1, which PyTorch takes for the last slot; a sentinel lies there."""
    case = make_case([1] * decodes, [3, 40, 16, 61, 17][:decodes], padding=8 - decodes)
    case.k_cache[-1, -1] = case.v_cache[-1, -1] = 7
    before = case.k_cache.clone()
    TorchAttention().write(case.k, case.v, case.k_cache, case.v_cache, case.batch, case.k_scale, case.v_scale)
    assert (case.k_cache[-1, -1] == 7).all() and (case.v_cache[-1, -1] == 7).all()
    changed = (case.k_cache != before) & ~(case.k_cache.isnan() & before.isnan())
    assert sorted(changed.flatten(0, 1).any(dim=(1, 2)).nonzero().flatten().tolist()) == sorted(
        case.batch.slots[:decodes].tolist()
    )


def test_padding_changes_no_other_row():
    """eng-02: rows of context 0 come back as zeros, and real rows are to the bit what they are without them."""
    lens, contexts = [1] * 5, [3, 40, 16, 61, 17]
    alone, padded = make_case(lens, contexts), make_case(lens, contexts, padding=3)
    result = attend(TorchAttention(), padded)
    assert torch.equal(result[:5], attend(TorchAttention(), alone))
    assert torch.equal(result[5:], torch.zeros_like(result[5:]))


@pytest.mark.parametrize("most_bytes", [1, 12_000, 1_000_000])
def test_decodes_gathered_one_some_or_all_at_a_time(monkeypatch, most_bytes):
    """One position of K is 2 heads * 64 * 4 bytes = 512: 12000 bytes are 23 positions."""
    monkeypatch.setattr(torch_backend, "CPU_GATHER_BYTES", most_bytes)
    case = make_case([1] * 6 + [9], [3, 5, 2, 30, 11, 11, 20])
    backend = TorchAttention()
    case.check(run(backend, case))
    pieces = {1: [1, 1, 1, 1, 1, 1, 9], 12_000: [3, 1, 2, 9], 1_000_000: [6, 9]}
    assert [piece.rows.stop - piece.rows.start for piece in backend._plan.pieces] == pieces[most_bytes]


def test_layers_of_a_step_share_a_plan_and_no_content():
    lens, contexts = [1, 1, 6], [20, 5, 30]
    first, second = make_case(lens, contexts), make_case(lens, contexts)
    second.v_written += 1  # softmax weights sum to 1: the result is 1 more
    second.batch = first.batch
    backend = TorchAttention()
    results, plans = [], []
    for layer in (first, second):
        arguments = layer.q, layer.k_written, layer.v_written, layer.batch, layer.scale, layer.k_scale, layer.v_scale
        results.append(backend.attend(*arguments))
        plans.append(backend._plan)
    assert plans[0] is plans[1]
    first.check(results[0])
    torch.testing.assert_close(results[1], results[0] + 1)


def test_a_batch_that_is_filled_anew_is_a_new_step():
    """Tables of two sequences trade places in the same tensor: so do the results."""
    case = make_case([1, 1], [20, 20])
    case.q[1] = case.q[0]
    backend = TorchAttention()
    call = lambda: backend.attend(case.q, case.k_written, case.v_written, case.batch, 1.0, case.k_scale, case.v_scale)  # noqa: E731
    before = call()
    case.batch.block_tables.copy_(case.batch.block_tables.flip(0))
    assert torch.equal(call(), before.flip(0)) and not torch.equal(before[0], before[1])


def test_the_next_step_may_begin_with_another_layer():
    backend = TorchAttention()
    for case in (make_case(**MIXED), make_case(**CASES["decode ragged"])):  # other caches, another batch
        case.check(attend(backend, case))


def test_rows_need_not_lie_one_behind_the_other():
    """q, k and v as slices of one projection [tokens, heads + 2 kv_heads, dim]."""
    case = make_case(**MIXED)
    together = torch.cat([case.q, case.k, case.v], dim=1)
    case.q, case.k, case.v = together.split([case.q.shape[1], case.k.shape[1], case.v.shape[1]], dim=1)
    case.check(run(TorchAttention(), case))


def test_inference_mode_comes_and_goes():
    """Memory that was first used inside of inference mode is used again outside."""
    backend, case = TorchAttention(), make_case(**MIXED)
    with torch.inference_mode():
        case.check(attend(backend, case))
    case.check(attend(backend, case))
