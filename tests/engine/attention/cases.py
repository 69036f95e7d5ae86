"""Random steps for attention back ends, with the answer.

    case = make_case(**CASES["mixed"], dtype=torch.float16)
    result = run(backend, case)  # writes, checks the caches to the bit, attends
    case.check(result)

What a sequence holds is drawn as plain tensors, one row a position, and the answer computed from them, never through a
block table. The blocks are scattered over the pool. All that no sequence of the step may read is NaN: blocks that nobody
owns, slots behind a context in its last block, and the slots that this very step writes until it has written them. The last
block of the pool has no owner, so slot -1 in PyTorch's sense must still be NaN after the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.attention.base import AttentionBackend, AttentionBatch
from engine.attention.fp8 import FP8, FP8_MAX, from_cache, to_cache
from engine.attention.reference import attention

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

# Largest |difference| allowed is TOLERANCE * (1 + |expected|). Values are drawn from N(0, 1). fp16 and bf16 round the result
# (2^-11, 2^-8 of it) and may round the probabilities before the product with V.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


class Share(NamedTuple):
    """Sequence `reader` holds the first `blocks` blocks of sequence `writer` (numbers as in query_lens)."""

    reader: int
    writer: int
    blocks: int


@dataclass
class Case:
    """One step of one layer: what a back end is given, and what must come out."""

    q: Tensor  # [tokens, heads, dim]
    k: Tensor  # [tokens, kv_heads, dim]
    v: Tensor
    k_cache: Tensor  # [blocks, block_size, kv_heads, dim] before the step
    v_cache: Tensor
    k_written: Tensor  # the same after `write`
    v_written: Tensor
    k_scale: Tensor  # fp32 [kv_heads], other than 1 for an fp8 cache
    v_scale: Tensor
    batch: AttentionBatch
    scale: float
    expected: Tensor  # fp32 [tokens, heads, dim]

    def to(self, device: str | torch.device) -> Case:
        moved = {field.name: getattr(self, field.name) for field in fields(self)}
        batch = {field.name: getattr(self.batch, field.name) for field in fields(self.batch)}
        moved["batch"] = AttentionBatch(**{name: _to(value, device) for name, value in batch.items()})
        return Case(**{name: _to(value, device) for name, value in moved.items()})

    def check(self, result: Tensor) -> None:
        """The result of `attend`: dtype and shape of q, no NaN, within the tolerance of its dtype."""
        assert result.dtype == self.q.dtype and result.shape == self.q.shape
        torch.testing.assert_close(result.float(), self.expected, atol=self.tolerance, rtol=self.tolerance)
        padding = [row for row, slot in enumerate(self.batch.slots.tolist()) if slot < 0]
        assert not result[padding].any(), "rows of padding must be zeros"

    def check_written(self, k_cache: Tensor, v_cache: Tensor) -> None:
        """The caches after `write`: what was not to be written is the same to the bit, what was is rightly rounded.

        fp8: a back end may multiply by 1 / scale where the definition divides; a tie may then fall to the other side.
        """
        for cache, before, written in ((k_cache, self.k_cache, self.k_written), (v_cache, self.v_cache, self.v_written)):
            new = ~_same_bits(before, written)
            assert _same_bits(cache, written)[~new].all(), "a slot was written that is not of this step"
            if cache.dtype == FP8:
                torch.testing.assert_close(cache.float()[new], written.float()[new], atol=2**-9, rtol=2**-3)
                assert new.sum() * 0.95 <= _same_bits(cache, written)[new].sum(), "ties are rare"
            else:
                assert _same_bits(cache, written).all(), "a row lies elsewhere, or was rounded otherwise"

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.q.dtype]


def run(backend: AttentionBackend, case: Case) -> Tensor:
    """Write and attend on copies of the caches; the caches are checked."""
    k_cache, v_cache = case.k_cache.clone(), case.v_cache.clone()
    backend.write(case.k, case.v, k_cache, v_cache, case.batch, case.k_scale, case.v_scale)
    case.check_written(k_cache, v_cache)
    # Attend on the definition's own caches: a tie of fp8 that fell to the other side is no error of `attend`.
    return attend(backend, case)


def attend(backend: AttentionBackend, case: Case) -> Tensor:
    """`attend` alone, after a right `write`; it changes neither cache nor queries."""
    q, k_cache, v_cache = case.q.clone(), case.k_written.clone(), case.v_written.clone()
    result = backend.attend(q, k_cache, v_cache, case.batch, case.scale, case.k_scale, case.v_scale)
    assert _same_bits(k_cache, case.k_written).all() and _same_bits(v_cache, case.v_written).all(), "attend wrote to a cache"
    assert torch.equal(q, case.q), "attend changed the queries"
    return result


def make_case(
    query_lens: Sequence[int], contexts: Sequence[int], *, heads: int = 4, kv_heads: int = 2, dim: int = 64,
    block_size: int = 16, dtype: torch.dtype = torch.float32, cache_dtype: torch.dtype | None = None,
    shares: Sequence[Share] = (), padding: int = 0, seed: int = 0, device: str | torch.device = "cpu",
) -> Case:  # fmt: skip
    """A step of sequences with `query_lens` new rows each, `contexts` positions after the step (those with one row first).

    `cache_dtype` is `dtype` unless given. `padding` rows of no sequence stand behind the decodes. The random numbers depend
    on `seed` and the shapes alone.
    """
    decodes = next((i for i, rows in enumerate(query_lens) if rows > 1), len(query_lens))
    assert all(rows > 1 for rows in query_lens[decodes:]), "sequences with one row come first"
    assert all(1 <= rows <= context for rows, context in zip(query_lens, contexts, strict=True))
    draw = _Draw(seed, kv_heads, dim, dtype)
    keys, values = ([draw.rows(context) for context in contexts] for _ in range(2))
    for reader, writer, blocks in shares:
        shared = blocks * block_size
        assert contexts[reader] - query_lens[reader] >= shared <= contexts[writer], (
            "shared blocks are full and not written twice"
        )
        keys[reader][:shared], values[reader][:shared] = keys[writer][:shared], values[writer][:shared]
    tables, num_blocks = draw.tables([-(-context // block_size) for context in contexts], shares)

    starts = [context - rows for context, rows in zip(contexts, query_lens, strict=True)]
    new_slots = [_slots(table, block_size, start, end) for table, start, end in zip(tables, starts, contexts, strict=True)]
    q = [torch.randn(rows, heads, dim, generator=draw.random).to(dtype) for rows in query_lens]
    cache_dtype = cache_dtype or dtype
    shape = num_blocks, block_size, kv_heads, dim
    caches = [_caches(rows, tables, new_slots, shape, cache_dtype) for rows in (keys, values)]
    (k_cache, k_written, k_scale), (v_cache, v_written, v_scale) = caches
    expected = [
        attention(q_, _stored(k_, cache_dtype, k_scale), _stored(v_, cache_dtype, v_scale), dim**-0.5)
        for q_, k_, v_ in zip(q, keys, values, strict=True)
    ]

    def varlen(per_sequence: Sequence[Tensor], pad: Tensor) -> Tensor:
        """The rows of all sequences, with the padding behind the decodes."""
        return torch.cat([*per_sequence[:decodes], *[pad[None]] * padding, *per_sequence[decodes:]])

    def inserted(per_sequence: Sequence[Any], pad: Any) -> list[Any]:
        return [*per_sequence[:decodes], *[pad] * padding, *per_sequence[decodes:]]

    lens, ends = inserted(query_lens, 1), inserted(contexts, 0)
    width = max((len(table) for table in tables), default=0) + 1
    batch = AttentionBatch(
        query_start=torch.tensor([0, *accumulate(lens)], dtype=torch.int32),
        context_lens=torch.tensor(ends, dtype=torch.int32),
        block_tables=torch.tensor(
            [table + [-1] * (width - len(table)) for table in inserted(tables, [])], dtype=torch.int32
        ),
        slots=varlen(new_slots, torch.tensor(-1)),
        positions=varlen([torch.arange(*span) for span in zip(starts, contexts, strict=True)], torch.tensor(0)),
        num_decodes=decodes + padding,
        query_lens=lens,
        contexts=ends,
    )
    case = Case(
        q=varlen(q, torch.ones(heads, dim, dtype=dtype)),
        k=varlen([rows[start:] for rows, start in zip(keys, starts, strict=True)], draw.rows(1)[0]),
        v=varlen([rows[start:] for rows, start in zip(values, starts, strict=True)], draw.rows(1)[0]),
        k_cache=k_cache, v_cache=v_cache, k_written=k_written, v_written=v_written, k_scale=k_scale, v_scale=v_scale,
        batch=batch, scale=dim**-0.5, expected=varlen(expected, torch.zeros(heads, dim)),
    )  # fmt: skip
    return case.to(device)


# Arguments of make_case by name, for block_size 16 (the default): every back end should pass all of them.
CASES: dict[str, dict[str, Any]] = {
    "decode one": dict(query_lens=[1], contexts=[37]),
    "decode the first token": dict(query_lens=[1], contexts=[1]),
    "decode ragged": dict(query_lens=[1] * 5, contexts=[3, 100, 16, 61, 17]),
    "decode at block edges (eng-04)": dict(query_lens=[1] * 5, contexts=[15, 16, 17, 32, 33]),
    "decode padded to 8 (eng-01, eng-02)": dict(query_lens=[1] * 5, contexts=[3, 40, 16, 61, 17], padding=3),
    "padding alone": dict(query_lens=[], contexts=[], padding=2),
    "prefill": dict(query_lens=[37], contexts=[37]),
    "prefills at block edges (eng-04)": dict(query_lens=[15, 16, 17, 32], contexts=[15, 16, 17, 32]),
    "chunk in the middle": dict(query_lens=[21], contexts=[75]),
    "chunks at block edges": dict(query_lens=[16, 8, 17, 2], contexts=[32, 24, 33, 17]),
    "mixed": dict(query_lens=[1, 1, 1, 20, 7], contexts=[50, 1, 33, 20, 64]),
    "mixed and padded": dict(query_lens=[1, 1, 9], contexts=[18, 64, 41], padding=2),
    "a decode reads what a prefill writes": dict(query_lens=[1, 40], contexts=[33, 40], shares=[Share(0, 1, 2)]),
    "a prefill reads what another writes": dict(query_lens=[40, 9], contexts=[40, 41], shares=[Share(1, 0, 2)]),
    "groups of 1": dict(query_lens=[1, 5], contexts=[30, 21], heads=3, kv_heads=3),
    "groups of 3": dict(query_lens=[1, 5], contexts=[30, 21], heads=9, kv_heads=3),
    "groups of 5": dict(query_lens=[1, 5], contexts=[30, 21], heads=5, kv_heads=1),
    "groups of 7": dict(query_lens=[1, 5], contexts=[30, 21], heads=14, kv_heads=2),
    "groups of 8": dict(query_lens=[1, 5], contexts=[30, 21], heads=8, kv_heads=1),
}


class _Draw:
    """The random numbers of a case."""

    def __init__(self, seed: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.kv_heads, self.dim, self.dtype = kv_heads, dim, dtype

    def rows(self, count: int) -> Tensor:
        return torch.randn(count, self.kv_heads, self.dim, generator=self.random).to(self.dtype)

    def tables(self, sizes: Sequence[int], shares: Sequence[Share]) -> tuple[list[list[int]], int]:
        """Block tables, nothing in common but what is shared, and the size of the pool; its last block is nobody's."""
        num_blocks = sum(sizes) + 4
        free = torch.randperm(num_blocks - 1, generator=self.random).tolist()
        tables = [[free.pop() for _ in range(size)] for size in sizes]
        for reader, writer, blocks in shares:
            tables[reader][:blocks] = tables[writer][:blocks]
        return tables, num_blocks


def _slots(table: list[int], block_size: int, start: int, end: int) -> Tensor:
    return torch.tensor([table[p // block_size] * block_size + p % block_size for p in range(start, end)], dtype=torch.int64)


def _caches(
    rows: list[Tensor], tables: list[list[int]], new_slots: list[Tensor], shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The cache of K or of V before the step and after `write`, NaN elsewhere, and the scales."""
    num_blocks, block_size, kv_heads, dim = shape
    scale = torch.ones(kv_heads)
    if dtype == FP8 and rows:  # a little too small, so that the largest values have to be clamped
        scale = 0.8 * torch.cat(rows).float().abs().amax(dim=(0, 2)) / FP8_MAX
    written = torch.full((num_blocks * block_size, kv_heads, dim), float("nan")).to(dtype)
    for content, table in zip(rows, tables, strict=True):
        written[_slots(table, block_size, 0, len(content))] = to_cache(content, dtype, scale)
    before = written.clone()
    for slots in new_slots:
        before[slots] = float("nan")
    return before.view(shape), written.view(shape), scale


def _stored(rows: Tensor, dtype: torch.dtype, scale: Tensor) -> Tensor:
    """Values as the cache hands them back."""
    return from_cache(to_cache(rows, dtype, scale), scale)


def _same_bits(a: Tensor, b: Tensor) -> Tensor:
    """NaN is the same as NaN here."""
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[a.element_size()]
    return a.view(integer) == b.view(integer)


def _to(value: Any, device: str | torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
