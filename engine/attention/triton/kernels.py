# Triton reads annotations as its own: parameters are tensors, pointers or numbers of the device.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
"""The Triton kernels of paged attention.

`write_kv` puts K and V into their slots. `paged_attention` serves decodes and chunks of prompts alike: a program computes
some rows of one sequence for all query heads of one KV head, so that each key is loaded once for the whole group (GQA), over
one part of the context; `merge` puts the parts together.

Softmax is the online one of FlashAttention (Dao et al. 2022), in base 2: exp(s) = exp2(s * log2 e). Parts of a context are
merged by their log-sum-exp (FlashDecoding): with o_i = softmax(s_i) v_i and lse_i = log2 sum exp2(s_i),

    o = sum_i exp2(lse_i) o_i / sum_i exp2(lse_i)

COMPUTE is the dtype in which the tensor cores are fed (accumulation is in fp32). It is a parameter because the interpreter
keeps bf16 as 16-bit integers and multiplies those: there it has to be fp32.

fp8 e4m3 is loaded as such where the device has instructions for it (sm_89 on). Elsewhere the caches come as uint8 and are
converted bit by bit. `write_kv` always rounds bit by bit: it is no hot loop, and so all devices write the same.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-1e30)  # below all scores, yet finite: LOWEST - LOWEST is 0, exp2(-inf - LOWEST) is 0


@triton.jit
def write_kv(
    k, v, k_cache, v_cache, slots, k_scale, v_scale,
    k_row, k_head, v_row, v_head,
    KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, HEADS_PADDED: tl.constexpr, DIM: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """One program a token: rows [kv_heads, dim] of K and V to their slot, unless that is -1.

    k_row, k_head, v_row, v_head: strides of k and v, in elements. Caches are contiguous. FP8: caches are uint8.
    """
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot < 0:
        return
    heads, dims = tl.arange(0, HEADS_PADDED), tl.arange(0, DIM)
    mask = (heads < KV_HEADS)[:, None] & (dims < HEAD_DIM)[None, :]
    target = slot * (KV_HEADS * HEAD_DIM) + heads[:, None] * HEAD_DIM + dims[None, :]
    new_k = tl.load(k + token * k_row + heads[:, None] * k_head + dims[None, :], mask=mask)
    new_v = tl.load(v + token * v_row + heads[:, None] * v_head + dims[None, :], mask=mask)
    if FP8:
        scale_k = tl.load(k_scale + heads, mask=heads < KV_HEADS, other=1.0)
        scale_v = tl.load(v_scale + heads, mask=heads < KV_HEADS, other=1.0)
        new_k = e4m3_from_float(tl.div_rn(new_k.to(tl.float32), scale_k[:, None]))
        new_v = e4m3_from_float(tl.div_rn(new_v.to(tl.float32), scale_v[:, None]))
    tl.store(k_cache + target, new_k.to(k_cache.dtype.element_ty), mask=mask)
    tl.store(v_cache + target, new_v.to(v_cache.dtype.element_ty), mask=mask)


@triton.jit
def e4m3_from_float(x):
    """The bits (uint8) of fp32 values in e4m3: clamped to +-448, rounded to the nearest, ties to even; NaN is 0x7f.

    e4m3 has a bias of 7 and 3 bits of mantissa, fp32 127 and 23. Below 2^-6 numbers are multiples of 2^-9; adding 2^14,
    whose last bit counts 2^-9, rounds to them.
    """
    sign = (x.to(tl.int32, bitcast=True) >> 24) & 0x80
    size = tl.minimum(tl.abs(x), 448.0)
    bits = size.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - ((127 - 7) << 3)
    subnormal = (size + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(size < 0.015625, subnormal, normal)
    return (sign | tl.where(x == x, code, 0x7F)).to(tl.uint8)


@triton.jit
def float_from_cache(x, COMPUTE: tl.constexpr):
    """Elements of a cache in the dtype to compute with; uint8 is e4m3 by its bits.

    Those of e4m3 shifted by 7 are an fp16 whose exponent is 8 too small, subnormals included: times 256.
    """
    if x.dtype == tl.uint8:
        bits = x.to(tl.int16)
        half = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0
        half = tl.where((bits & 0x7F) == 0x7F, float("nan"), half)
        return half.to(COMPUTE)
    else:
        return x.to(COMPUTE)


@triton.jit
def attend_tile(
    q, accumulated, row_max, row_sum, k_head, v_head, table, start, end, row_positions, score_scale,
    HEAD_DIM: tl.constexpr, DIM: tl.constexpr, SLOT: tl.constexpr, BLOCK_SIZE: tl.constexpr, KEYS: tl.constexpr,
    MASKED: tl.constexpr, COMPUTE: tl.constexpr,
):  # fmt: skip
    """One step of the online softmax: KEYS positions from `start` on, of which those from `end` on do not exist.

    q [rows, DIM]; k_head, v_head: a KV head within slot 0; SLOT: elements of a slot. MASKED false: all positions exist and
    all rows see them.
    """
    positions = start + tl.arange(0, KEYS)
    dims = tl.arange(0, DIM)
    # The mask is what keeps entries -1 of the table, and slots past the context, from being read.
    exists = positions < end if MASKED else tl.full([KEYS], 1, tl.int1)
    blocks = tl.load(table + positions // BLOCK_SIZE, mask=exists, other=0).to(tl.int64)
    offsets = (blocks * BLOCK_SIZE + positions % BLOCK_SIZE)[:, None] * SLOT + dims[None, :]
    mask = exists[:, None] & (dims < HEAD_DIM)[None, :]
    k = float_from_cache(tl.load(k_head + offsets, mask=mask, other=0.0), COMPUTE)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * score_scale
    if MASKED:
        seen = exists[None, :] & (positions[None, :] <= row_positions[:, None])
        scores = tl.where(seen, scores, float("-inf"))
    new_max = tl.maximum(row_max, tl.max(scores, 1))
    weights = tl.exp2(scores - new_max[:, None])
    decay = tl.exp2(row_max - new_max)
    v = float_from_cache(tl.load(v_head + offsets, mask=mask, other=0.0), COMPUTE)
    accumulated = accumulated * decay[:, None] + tl.dot(weights.to(COMPUTE), v, input_precision="ieee")
    return accumulated, new_max, row_sum * decay + tl.sum(weights, 1)


@triton.jit(do_not_specialize=["table_row", "first", "splits"])
def paged_attention(
    q, k_cache, v_cache, out, part_out, part_lse, block_tables, query_start, context_lens, k_scale, v_scale,
    scale, q_row, q_head, table_row, first, splits,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, SPLIT: tl.constexpr, FP8: tl.constexpr, COMPUTE: tl.constexpr,
):  # fmt: skip
    """Grid (sequences * splits, kv_heads, tiles of rows): one tile of rows over one part of the context.

    Tensors as in engine.attention.base; caches and `out` are contiguous, q has strides q_row and q_head, tables have
    table_row. first: the sequence of program 0; all before it have one row. scale: of the scores, times log2 e.
    The ROWS rows of a tile are query heads within positions: row r is head r % GROUP of position r // GROUP.
    SPLIT: not `out` but part_out fp32 [rows, heads, splits, dim] and part_lse fp32 [rows, heads, splits] are written, rows
    counted from `first`. Where a part sees nothing its lse is -inf, and its part_out is left as it was.
    DIM is HEAD_DIM filled up to a power of two.
    """
    sequence, split = first + tl.program_id(0) // splits, tl.program_id(0) % splits
    kv_head = tl.program_id(1)
    # The tiles that see most come first: the last programs to start are short.
    tile = tl.num_programs(2) - 1 - tl.program_id(2)
    POSITIONS: tl.constexpr = ROWS // GROUP  # of a tile
    first_row = tl.load(query_start + sequence)
    num_rows = tl.load(query_start + sequence + 1) - first_row
    if tile * POSITIONS >= num_rows:
        return
    context = tl.load(context_lens + sequence)

    row = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM)
    query = tile * POSITIONS + row // GROUP
    valid = (query < num_rows) & (row < POSITIONS * GROUP)
    query_row = (first_row + query).to(tl.int64)
    head = kv_head * GROUP + row % GROUP
    row_mask = valid[:, None] & (dims < HEAD_DIM)[None, :]
    queries = tl.load(q + query_row[:, None] * q_row + head[:, None] * q_head + dims[None, :], mask=row_mask, other=0.0)
    queries = queries.to(COMPUTE)

    # Positions begin .. end - 1 are this program's; those before full_end come in whole tiles that all its rows see.
    tile_position = context - num_rows + tile * POSITIONS
    tile_end = tl.maximum(tl.minimum(context, tile_position + POSITIONS), 0)
    part = tl.cdiv(tl.cdiv(tile_end, KEYS), splits) * KEYS
    begin = split * part
    end = tl.minimum(begin + part, tile_end)
    full_end = begin + tl.maximum(tl.minimum(end, tile_position + 1) - begin, 0) // KEYS * KEYS

    SLOT: tl.constexpr = KV_HEADS * HEAD_DIM
    k_head = k_cache + kv_head * HEAD_DIM
    v_head = v_cache + kv_head * HEAD_DIM
    table = block_tables + sequence.to(tl.int64) * table_row
    if FP8:
        scale *= tl.load(k_scale + kv_head)
    row_positions = tile_position + row // GROUP
    row_max = tl.full([ROWS], LOWEST, tl.float32)
    row_sum = tl.zeros([ROWS], tl.float32)
    accumulated = tl.zeros([ROWS, DIM], tl.float32)
    for start in range(begin, full_end, KEYS):
        accumulated, row_max, row_sum = attend_tile(
            queries, accumulated, row_max, row_sum, k_head, v_head, table, start, end, row_positions, scale,
            HEAD_DIM, DIM, SLOT, BLOCK_SIZE, KEYS, False, COMPUTE,
        )  # fmt: skip
    for start in range(full_end, end, KEYS):
        accumulated, row_max, row_sum = attend_tile(
            queries, accumulated, row_max, row_sum, k_head, v_head, table, start, end, row_positions, scale,
            HEAD_DIM, DIM, SLOT, BLOCK_SIZE, KEYS, True, COMPUTE,
        )  # fmt: skip

    empty = row_sum == 0.0  # a row of padding, or a row before this part
    result = accumulated / tl.where(empty, 1.0, row_sum)[:, None]
    if FP8:
        result *= tl.load(v_scale + kv_head)
    if SPLIT:
        part_row = ((query_row - first) * (KV_HEADS * GROUP) + head) * splits + split
        lse = tl.where(empty, float("-inf"), row_max + tl.log2(tl.where(empty, 1.0, row_sum)))
        tl.store(part_lse + part_row, lse, mask=valid)
        tl.store(part_out + part_row[:, None] * HEAD_DIM + dims[None, :], result, mask=row_mask & ~empty[:, None])
    else:
        target = out + (query_row[:, None] * (KV_HEADS * GROUP) + head[:, None]) * HEAD_DIM + dims[None, :]
        tl.store(target, result.to(out.dtype.element_ty), mask=row_mask)


@triton.jit(do_not_specialize=["splits"])
def merge(out, part_out, part_lse, splits, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, MOST_SPLITS: tl.constexpr):
    """One program a row and head: the parts of its context, merged. A row of which no part saw anything is zero."""
    row = tl.program_id(0).to(tl.int64)
    split, dims = tl.arange(0, MOST_SPLITS), tl.arange(0, DIM)
    lse = tl.load(part_lse + row * splits + split, mask=split < splits, other=float("-inf"))
    weights = tl.exp2(lse - tl.maximum(tl.max(lse, 0), LOWEST))
    # A part with lse -inf was never written: it must not even be multiplied by 0.
    mask = (lse > float("-inf"))[:, None] & (dims < HEAD_DIM)[None, :]
    parts = tl.load(part_out + (row * splits + split)[:, None] * HEAD_DIM + dims[None, :], mask=mask, other=0.0)
    total = tl.sum(weights, 0)
    result = tl.sum(parts * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row * HEAD_DIM + dims, result.to(out.dtype.element_ty), mask=dims < HEAD_DIM)
