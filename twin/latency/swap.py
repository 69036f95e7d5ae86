"""Time to move KV blocks between device and host."""


def swap_seconds(blocks: int, block_bytes: int, bandwidth_gib_s: float | None, per_copy_s: float = 0.0) -> float:
    """Seconds to move `blocks` blocks out and in again: 2 * blocks * (block_bytes / bandwidth + per_copy_s).

    `per_copy_s` is what a copy of one block costs beside its bytes: small blocks make many copies, which is why swapping
    is slow for them (Kwon et al., PagedAttention, SOSP 2023, figure 19). A bandwidth of None moves bytes for nothing.
    """
    if blocks < 0 or block_bytes <= 0:
        raise ValueError(f"swap: {blocks} blocks of {block_bytes} bytes; blocks must be 0 or more, bytes above 0")
    if per_copy_s < 0 or (bandwidth_gib_s is not None and bandwidth_gib_s <= 0):
        raise ValueError(
            f"swap.bandwidth_gib_s must be above 0 (or null for free), swap.per_copy_s 0 or more; "
            f"got {bandwidth_gib_s} and {per_copy_s}"
        )
    transfer_s = 0.0 if bandwidth_gib_s is None else block_bytes / (bandwidth_gib_s * 2**30)
    return 2 * blocks * (transfer_s + per_copy_s)
