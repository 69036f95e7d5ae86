"""vLLM's scheduler, as a policy of ours sees it: what `twin.policy.SystemView` and the core's queues and rankings ask for.

It has the names of `twin.core.state.State`, so that the core's own queues (`twin.core.waiting`) and its ranking of
preemptive orders (`twin.core.preemptive`) serve here too, and mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time
from typing import Any

from engine.vllm._request import Record
from twin.core.limits import Limits
from twin.core.waiting import Queue, make_queue
from twin.policy import Policy, RequestView, SystemView, declares_steady


class State:
    """What a policy may ask of one scheduler of vLLM's."""

    swapped: tuple[Record, ...] = ()  # vLLM recomputes
    paused: tuple[Record, ...] = ()
    standing = None

    def __init__(self, scheduler: Any, policy: Policy, preemptive: bool) -> None:
        self.scheduler, self.policy = scheduler, policy
        self.limits = limits_of(scheduler)
        self.manager = scheduler.kv_cache_manager.coordinator.single_type_managers[0]
        self.hashes_in_block: int = scheduler.block_size // scheduler.hash_block_size
        self.pool = Pool(scheduler.kv_cache_manager.block_pool)
        self.running = Running(scheduler)
        self.preemptive = preemptive
        self.view = SystemView(self)
        self.waiting: Queue = make_queue(policy, self.view)
        self.watermark_blocks = self.limits.watermark_blocks
        self.clock: Callable[[], float] = time  # of arrivals: seconds
        self.now = 0.0
        self.plans = 0
        self.admissions = 0
        # The keys of those who run never grow, if the policy says so: see `twin.core.preemptive.Ranking`.
        always = policy.steady and policy.steady_steps is None and policy.steady_until is None
        self.keys_only_fall = policy.preempts and declares_steady(policy) and always
        self.largest_key: Any = None

    def begin(self) -> None:
        """A plan is about to be made."""
        self.now = max(self.now, self.clock())  # the wall clock may be set back
        self.plans += 1

    def hits(self, request: Any) -> Any:
        """The blocks that an admission now would find cached."""
        return self.scheduler.kv_cache_manager.get_computed_blocks(request)[0].blocks[0]

    def filled_now(self, record: Record) -> list[Any]:
        """The blocks that others can find, and that only the tokens fill which this plan gave the request."""
        if record.allocated_in != self.plans or not self.limits.enable_prefix_caching:
            return []
        blocks = self.manager.req_to_blocks[record.request.request_id]
        return [block for block in blocks[record.cached_before :] if block.block_hash is not None]

    def lends(self, record: Record) -> bool:
        """As `twin.core.state.State.lends`: whether somebody counts on such a block already."""
        return any(block.ref_cnt > 1 for block in self.filled_now(record))

    @property
    def prefills(self) -> list[Record]:
        return [record for record in self.running if record.pending > 1]

    def head_view(self) -> RequestView | None:
        head = self.waiting.head()
        return None if head is None else head.view

    def swapped_head_view(self) -> None:
        return None

    def reorder(self, record: Any) -> None:
        if record.place == "queue":
            self.waiting.reorder(record)

    def begin_plan(self) -> Any:
        raise NotImplementedError("a whole plan")


class Pool:
    """Free blocks, as the core counts them: cached ones that nobody holds among them."""

    reserves = False
    free_host = ()

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    @property
    def num_free(self) -> int:
        free: int = self.pool.get_num_free_blocks()
        return free


class Running:
    """Who runs, in order of admission: vLLM's list, which vLLM replaces now and then."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def __len__(self) -> int:
        return len(self.scheduler.running)

    def __iter__(self) -> Iterator[Record]:
        return (request.twin_record for request in self.scheduler.running)


def limits_of(scheduler: Any) -> Limits:
    """The sizes that vLLM was started with. Its block 0 is the null block, which is no room."""
    options, cache = scheduler.scheduler_config, scheduler.cache_config
    return Limits(
        num_blocks=scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1,
        block_size=scheduler.block_size,
        max_num_seqs=scheduler.max_num_active_reqs,
        max_num_batched_tokens=scheduler.max_num_scheduled_tokens,
        long_prefill_token_threshold=options.long_prefill_token_threshold,
        max_model_len=scheduler.max_model_len,
        enable_chunked_prefill=bool(options.enable_chunked_prefill),
        enable_prefix_caching=bool(cache.enable_prefix_caching),
        watermark=options.watermark,
    )
