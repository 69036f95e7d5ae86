"""How fast the decode kernels read keys and values, against a copy on the device.

A point is a batch of sequences of one context, read as a model's layers do: the same block tables, each layer its own part
of the cache, one attention after the other. So many layers are read in one timing that their keys and values exceed the L2
cache by far (`round_bytes`); blocks lie scattered over each layer. Back ends that can be recorded are replayed from a CUDA
graph. The copy and the back ends take turns; each figure is a median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from bench.on_gpu import roofline
from bench.on_gpu.budget import Deadline
from bench.on_gpu.items import Item, Note, Part, Row
from bench.on_gpu.setup import GB, Setup
from bench.on_gpu.timing import DeviceCopy, interleaved, recorded, timer_of
from engine.attention.base import AttentionBackend, AttentionBatch
from engine.attention.choose import Wanted, make
from engine.attention.fp8 import FP8, to_cache
from engine.build import TORCH_DTYPES
from engine.errors import EngineError, StepFailure
from engine.kv_cache import available_bytes
from twin.cli.errors import one_line

BLOCK_SIZE = 16
MEMORY_SHARE = 5  # keys and values of a point take at most a fifth of the free memory: others gather copies of them
L2_TIMES = 4
TORCH_MOST_BYTES = 1_200_000_000  # attention=torch copies what it reads: larger points take long and say no more
AGREE = 0.05  # of the largest value: by which back ends may differ, whose sums are in another order and bf16 at the end
FILLED_AT_ONCE = 1 << 26  # elements


class Point(NamedTuple):
    batch: int
    context: int  # tokens of each sequence
    group: int
    head_dim: int
    kv_dtype: str
    kv_heads: int

    @property
    def kv_bytes(self) -> int:
        """Of one layer: what a kernel has to read."""
        size = TORCH_DTYPES[self.kv_dtype].itemsize
        return roofline.attention_bytes(self.batch, self.context, self.kv_heads, self.head_dim, size)

    @property
    def blocks(self) -> int:
        return self.batch * -(-self.context // BLOCK_SIZE)


def points(setup: Setup, most_bytes: int) -> list[Point]:
    """Those of 1 GB and more first, from there the small ones up: what time does not allow is in the middle."""
    shapes = list(product(setup.groups, setup.head_dims, setup.kv_dtypes))
    found = [
        Point(batch, context, *shape, setup.kv_heads)
        for batch, context in product(setup.batches, setup.contexts)
        for shape in shapes
    ]
    found = [point for point in found if point.kv_bytes <= most_bytes]
    goal = sorted((point for point in found if point.kv_bytes >= GB), key=lambda point: point.kv_bytes)
    rest = sorted((point for point in found if point.kv_bytes < GB), key=lambda point: (point.batch, point.context))
    return [*_by_turns(goal, shapes), *_by_turns(rest, shapes)]


def _by_turns(found: list[Point], shapes: list[tuple[int, int, str]]) -> Iterator[Point]:
    """One of each shape (group, head dim, dtype), then the next of each."""
    queues = [[point for point in found if point[2:5] == shape] for shape in shapes]
    for number in range(max(map(len, queues), default=0)):
        yield from (queue[number] for queue in queues if number < len(queue))


def layers_of(point: Point, round_bytes: int, pool_bytes: int) -> int:
    """So many that a timing reads `round_bytes`, as far as the pool of keys and values has room."""
    return max(1, min(-(-round_bytes // point.kv_bytes), pool_bytes // point.kv_bytes))


def parts(setup: Setup) -> dict[str, Part]:
    return {"bandwidth": measure}


@torch.inference_mode()
def measure(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    device = torch.device(setup.device)
    most = min(setup.most_kv_bytes, available_bytes(device) // MEMORY_SHARE)
    if most < setup.most_kv_bytes:
        yield Note(f"bandwidth: points of at most {most / GB:.2f} GB of KV, as the device's memory is small")
    l2 = torch.cuda.get_device_properties(device).L2_cache_size if device.type == "cuda" else 0
    round_bytes = max(setup.round_bytes, L2_TIMES * l2)
    planned = points(setup, most)
    pools = {dtype: Pool(planned, dtype, round_bytes, device) for dtype in setup.kv_dtypes}
    bench = Bench(setup, device, pools, round_bytes)
    for number, point in enumerate(planned):
        if deadline.is_over:
            yield Note(f"bandwidth: no time for {len(planned) - number} of {len(planned)} points")
            return
        yield from bench.rows(point)


class Pool:
    """Memory for keys and as much for values, one dtype, N(0, 1) in it. Every point cuts its layers out of it."""

    def __init__(self, planned: Iterable[Point], dtype: str, round_bytes: int, device: torch.device) -> None:
        self.dtype = TORCH_DTYPES[dtype]
        largest = max((point.kv_bytes for point in planned if point.kv_dtype == dtype), default=0)
        self.bytes = max(largest, round_bytes)
        elements = self.bytes // 2 // self.dtype.itemsize
        self.k, self.v = (torch.empty(elements, dtype=self.dtype, device=device) for _ in range(2))
        generator = torch.Generator(device).manual_seed(0)
        one = torch.ones(1, device=device)
        for piece in (*self.k.split(FILLED_AT_ONCE), *self.v.split(FILLED_AT_ONCE)):
            drawn = torch.empty(piece.shape, device=device).normal_(generator=generator)
            piece.copy_(to_cache(drawn[:, None], self.dtype, one)[:, 0] if self.dtype == FP8 else drawn)

    def layers(self, point: Point, count: int) -> list[tuple[Tensor, Tensor]]:
        """K and V [blocks, block_size, kv_heads, dim] of each."""
        shape = (count, point.blocks, BLOCK_SIZE, point.kv_heads, point.head_dim)
        size = torch.Size(shape).numel()
        return list(zip(self.k[:size].view(shape), self.v[:size].view(shape), strict=True))


class Bench:
    """Measures points."""

    def __init__(self, setup: Setup, device: torch.device, pools: dict[str, Pool], round_bytes: int) -> None:
        self.setup, self.device, self.pools, self.round_bytes = setup, device, pools, round_bytes
        self.timer = timer_of(device)
        self.copy = DeviceCopy(device, setup.copy_bytes, self.timer)

    def rows(self, point: Point) -> Iterator[Row]:
        """A row a back end; one that could not be measured says why."""
        pool = self.pools[point.kv_dtype]
        caches = pool.layers(point, layers_of(point, self.round_bytes, pool.bytes))
        timers, outputs, why = {"copy": self.copy.seconds}, {}, {}
        for name in self.setup.backends:
            try:
                outputs[name], replay = self._ready(name, point, caches)
            except (EngineError, StepFailure, torch.OutOfMemoryError) as error:
                why[name] = one_line(f"{type(error).__name__}: {error}")
                continue
            timers[name] = partial(self.timer, replay)
        seconds = interleaved(timers, self.setup.repeats)
        rate = roofline.copy_rate(self.setup.copy_bytes, seconds["copy"])
        for name in self.setup.backends:
            about = {
                **point._asdict(), "backend": name, "how": how(name, self.setup),
                "kv_gb": point.kv_bytes / GB, "layers": len(caches), "copy_gb_s": rate / GB, "why": why.get(name, ""),
            }  # fmt: skip
            if name not in why:
                one_s = seconds[name] / len(caches)
                about |= {
                    "median_us": one_s * 1e6, "gb_s": point.kv_bytes / one_s / GB,
                    "of_copy": roofline.share(point.kv_bytes, rate, one_s),
                    "differs_by": apart(outputs[name], list(outputs.values())),
                }  # fmt: skip
            yield Row("bandwidth", about)

    def _ready(self, name: str, point: Point, caches: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Callable[[], object]]:
        """The output of the first layer, and what computes all layers. Raises where this back end cannot."""
        if name == "torch" and point.kv_bytes > TORCH_MOST_BYTES:
            raise EngineError(f"attention=torch copies what it reads; measured up to {TORCH_MOST_BYTES / GB:g} GB alone")
        backend = make(name, Wanted(self.device, point.head_dim, BLOCK_SIZE, TORCH_DTYPES[point.kv_dtype])).backend
        launch = attention_of_layers(backend, point, caches, self.device)
        output = launch().clone()
        return output, recorded(launch) if how(name, self.setup) == "graph" else launch


def how(name: str, setup: Setup) -> str:
    """A back end is launched: from a CUDA graph, where there are any and it can be recorded."""
    return "graph" if name in setup.recordable and not setup.dry_run else "eager"


def attention_of_layers(
    backend: AttentionBackend, point: Point, caches: list[tuple[Tensor, Tensor]], device: torch.device
) -> Callable[[], Tensor]:
    """Attends in all layers; returns the last one's result [batch, heads, dim]."""
    generator = torch.Generator(device).manual_seed(1)
    heads = point.group * point.kv_heads
    q = torch.empty(point.batch, heads, point.head_dim, dtype=torch.bfloat16, device=device).normal_(generator=generator)
    ones = torch.ones(point.kv_heads, device=device)
    batch = scattered_batch(point, device)

    @torch.inference_mode()
    def launch() -> Tensor:
        for k_cache, v_cache in caches:
            out = backend.attend(q, k_cache, v_cache, batch, point.head_dim**-0.5, ones, ones)
        return out

    return launch


def scattered_batch(point: Point, device: torch.device) -> AttentionBatch:
    """Decodes whose blocks are a random permutation of a layer's."""
    order = torch.randperm(point.blocks, generator=torch.Generator().manual_seed(2)).int()
    tables = order.view(point.batch, -1)
    position = point.context - 1
    slots = tables[:, position // BLOCK_SIZE].long() * BLOCK_SIZE + position % BLOCK_SIZE
    return AttentionBatch(
        query_start=torch.arange(point.batch + 1, dtype=torch.int32, device=device),
        context_lens=torch.full((point.batch,), point.context, dtype=torch.int32, device=device),
        block_tables=tables.to(device), slots=slots.to(device),
        positions=torch.full((point.batch,), position, dtype=torch.int64, device=device),
        num_decodes=point.batch, query_lens=[1] * point.batch, contexts=[point.context] * point.batch,
    )  # fmt: skip


def apart(output: Tensor, others: list[Tensor]) -> float:
    """The largest difference of one back end's result from any other's, as a share of the largest value; NaN for NaN."""
    all_of_them = torch.stack([other.float() for other in others])
    return float((all_of_them - output.float()).abs().max() / all_of_them.abs().max())
