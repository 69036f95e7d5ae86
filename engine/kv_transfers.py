"""Blocks that go to the host, come back, or are copied before a write.

Blocks with consecutive numbers on both sides make a run, and a run crosses the link in one copy. The blocks of a run lie
apart on the device, once for K and V of each layer: a Llama 8B in fp16 has 64 such pieces of 32 KiB in a block of 16 tokens,
and one copy each would spend more on starting copies than on bytes. So a run is gathered on the device, at the speed of its
own memory, into a staging buffer of the host's layout, and goes from there to the host in one piece; back likewise:

    data [2][layers][blocks]...   -- gather -->   staging [blocks][2][layers]...   == link ==>   host_data

On CUDA this happens on a stream of its own. Its order alone makes the transfers happen one after the other; between it and
the stream that computes there are two waits:

    before   the transfers wait for all that has been launched: a block to be swapped out may still be written by the last
             step, and one to be filled may still be read by it
    after    the next step waits until the transfers are done with the device's blocks. A block is free to be overwritten
             once it is gathered, so its way to the host is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

STAGING_BYTES = 64 << 20


class Run(NamedTuple):
    """Blocks source .. source + blocks - 1 go to target .. target + blocks - 1."""

    source: int
    target: int
    blocks: int


def runs(pairs: Iterable[tuple[int, int]], *, one_pool: bool = False, most: int = 1 << 30) -> list[Run]:
    """Pairs (from, to) in their order, those with consecutive numbers merged, up to `most` in a run.

    In one pool a run ends before its sources and targets would overlap: the pairs are meant one after the other, and a copy
    of overlapping ranges is not.
    """
    found: list[Run] = []
    for source, target in pairs:
        assert not one_pool or source != target, f"block {source} copied to itself"
        if found:
            first_source, first_target, count = found[-1]
            limit = min(most, abs(first_target - first_source)) if one_pool else most
            if (source, target) == (first_source + count, first_target + count) and count < limit:
                found[-1] = Run(first_source, first_target, count + 1)
                continue
        found.append(Run(source, target, 1))
    return found


class BlockTransfers:
    """Moves blocks between `data` [2][layers][blocks]... on the device and `host` [host blocks][2][layers]..."""

    def __init__(self, data: Tensor, host: Tensor, staging_bytes: int | None = None) -> None:
        """A buffer of `staging_bytes`, at least a block, is used between CUDA and the host, or if it is given."""
        self.blocks = data.movedim(2, 0)  # a view in the order of the host's layout
        self.host = host
        on_cuda = data.device.type == "cuda"
        self.staging: Tensor | None = None
        if len(host) and (on_cuda or staging_bytes is not None):
            block_bytes = host[0].numel() * host.element_size()
            count = max((staging_bytes or STAGING_BYTES) // block_bytes, 1)
            self.staging = torch.empty_like(host[:count], device=data.device)
        self.stream = SideStream(data, self.staging) if on_cuda and self.staging is not None else None
        self.most_staged = 1 << 30 if self.staging is None else len(self.staging)

    def apply(self, transfers: Iterable[tuple[str, int, int]]) -> None:
        """("out" | "in" | "copy", from, to) in their order; neighbours of one kind are merged into runs."""
        transfers = list(transfers)
        if not transfers:
            return
        ways = {"out": self.swap_out, "in": self.swap_in, "copy": self.copy_blocks}
        with self.stream.transfers() if self.stream else nullcontext():
            for way, group in groupby(transfers, key=itemgetter(0)):
                ways[way]((source, target) for _, source, target in group)

    def swap_out(self, pairs: Iterable[tuple[int, int]]) -> None:
        for source, target, count in runs(pairs, most=self.most_staged):
            leaving, place = self.blocks[source : source + count], self.host[target : target + count]
            if self.staging is None:
                place.copy_(leaving)
                continue
            staged = self.staging[:count].copy_(leaving)
            self._done_with_device()
            place.copy_(staged, non_blocking=True)

    def swap_in(self, pairs: Iterable[tuple[int, int]]) -> None:
        for source, target, count in runs(pairs, most=self.most_staged):
            coming, place = self.host[source : source + count], self.blocks[target : target + count]
            if self.staging is not None:
                coming = self.staging[:count].copy_(coming, non_blocking=True)
            place.copy_(coming)
            self._done_with_device()

    def copy_blocks(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copy-on-write, within the device."""
        for source, target, count in runs(pairs, one_pool=True):
            self.blocks[target : target + count].copy_(self.blocks[source : source + count])
            self._done_with_device()

    def synchronize(self) -> None:
        if self.stream:
            self.stream.stream.synchronize()

    def _done_with_device(self) -> None:
        if self.stream:
            self.stream.mark()


class SideStream:
    """A CUDA stream beside the one that computes, and the two waits between them."""

    def __init__(self, data: Tensor, staging: Tensor) -> None:
        self.stream = torch.cuda.Stream(data.device)
        self.marked = torch.cuda.Event()
        for used in (data, staging):  # the allocator must not give their memory away while a transfer still uses it
            used.record_stream(self.stream)

    @contextmanager
    def transfers(self) -> Iterator[None]:
        """What is launched inside goes to the side stream; what is launched afterwards waits for the last `mark`."""
        compute = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(compute)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            compute.wait_event(self.marked)

    def mark(self) -> None:
        """The transfers launched so far have to be over before the next step computes."""
        self.marked.record(self.stream)
