"""The numbers and rules that a scheduler lives within: fixed for a run, checked once, here."""

from dataclasses import dataclass, fields

PREEMPTION_MODES = ("recompute", "swap", "auto", "keep")
PAUSE_MODES = ("recompute", "swap", "keep")
ALLOCATORS = ("paged", "contiguous")
NO_LIMIT = 1 << 30  # a max_model_len that limits nothing
# Beyond these no pool can be made in memory; what is larger is a slip.
MOST = {"num_blocks": 1 << 27, "num_host_blocks": 1 << 27, "block_size": 1 << 16, "max_num_seqs": 1 << 27}
MOST |= {"max_num_batched_tokens": 1 << 40, "max_model_len": 1 << 40}
VLLM_RULES = {  # rules that differ between versions of vLLM (docs/vllm.md): the section of the options that each stands in
    "scheduler_reserve_full_isl": "scheduler",
    "threshold_spares_lone_request": "scheduler",
    "victim_skips_next": "scheduler",
    "self_victim_ends_phase": "scheduler",
    "foresee_last_token": "scheduler",
    "abort_before_update": "scheduler",
    "blank_blocks_first": "cache",
}


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // block_size)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, under vLLM's names where vLLM has one. `num_blocks` are usable blocks: a null block is not among them."""

    num_blocks: int
    block_size: int = 16  # tokens
    num_host_blocks: int = 0
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    long_prefill_token_threshold: int = 0  # 0: none
    max_model_len: int = NO_LIMIT  # prompt and output of a request
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = False
    watermark: float = 0.0  # share of the pool that admissions leave free while anything runs

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in (int, "int") and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{field.name} must be an integer, not {value!r}")
        for name in ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be at most {most:,}, not {getattr(self, name)}")
        for name in ("num_host_blocks", "long_prefill_token_threshold"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if not isinstance(self.watermark, (int, float)) or not 0 <= self.watermark < 1:
            raise ValueError(f"watermark is a share of the pool, 0 <= watermark < 1, not {self.watermark!r}")

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept back from admissions while anything runs; the + 1 is vLLM's null block."""
        return int(self.watermark * (self.num_blocks + 1))

    def why_never(self, prompt_tokens: int, max_tokens: int, samples: int = 1) -> str | None:
        """The reason for which a request could never be served, with the numbers, or None.

        The KV of the last token is never written, so prompt + output - 1 tokens are the most it ever holds. Without
        chunked prefill a preempted request must come back in one step: then they must fit in the budget too.
        """
        output = min(max_tokens, self.max_model_len - prompt_tokens)
        if output < 1:
            return f"prompt of {prompt_tokens} tokens leaves no room in max_model_len={self.max_model_len}"
        if samples > self.max_num_seqs:
            return f"{samples} samples need {samples} seats, max_num_seqs={self.max_num_seqs}"
        most = prompt_tokens + output - 1
        blocks = blocks_for(most, self.block_size)
        blocks += (samples - 1) * (blocks - prompt_tokens // self.block_size)  # full prompt blocks are shared
        if blocks > self.num_blocks:
            return f"{most} tokens need {blocks} blocks, num_gpu_blocks={self.num_blocks}"
        if not self.enable_chunked_prefill and most > self.max_num_batched_tokens:
            return f"{most} tokens exceed max_num_batched_tokens={self.max_num_batched_tokens} without chunked prefill"
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """Choices that go with any policy."""

    preemption_mode: str = "recompute"
    preempt_for_seat: bool = False  # a head of a lower `order` takes the seat of the last in order (our extension)
    allocator: str = "paged"
    async_scheduling: bool = False
    vllm_defects: bool = False  # a victim that gives back tokens keeps the hashes of blocks never computed (vLLM 0.32)
    pause: str = "recompute"  # what becomes of the blocks of a request that pauses
    # As vLLM 0.32 does; other versions do otherwise.
    scheduler_reserve_full_isl: bool = True  # an admission needs room for the whole request, not for its first chunk alone
    threshold_spares_lone_request: bool = True  # no long_prefill_token_threshold for a request that is alone
    victim_skips_next: bool = False  # ... of a walk, if the victim stood before and had been passed over
    self_victim_ends_phase: bool = True  # those behind a request that was its own victim get nothing in that step
    foresee_last_token: bool = True  # asynchronous: no step more for a request whose last possible token is in flight
    abort_before_update: bool = True  # an abort drops the tokens of the batch that has just ended
    blank_blocks_first: bool = True  # of the freed blocks those without content are given out first, else the oldest

    def __post_init__(self) -> None:
        choices = (("preemption_mode", PREEMPTION_MODES), ("pause", PAUSE_MODES), ("allocator", ALLOCATORS))
        for name, allowed in choices:
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
