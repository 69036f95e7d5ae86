"""How many blocks the pools get where nothing is said, and the scales of an fp8 cache that are observed."""

from typing import Any

import pytest
import torch

from engine import pool_size
from engine.cli.backend import may_swap
from engine.errors import EngineError
from engine.kv_cache import GIB, KVCache
from engine.kv_scales import MARGIN, observe_scales
from engine.model.load import load_model
from engine.pool_size import device_blocks, host_blocks
from engine.tiny import TINY
from tests.engine.cli.commands import PLAIN, TRACE
from twin.memory import ModelShape
from twin.policy_assembly import assemble

MIB = 2**20
SHAPE = ModelShape("m", "llama", 2, 64, 4, 2, 16, 128, 512, True, 4096, "bf16")


def config(**cache: Any) -> dict[str, Any]:
    scheduler = {"max_num_batched_tokens": 1024, "max_num_seqs": 8}
    return {"scheduler": scheduler, "cache": {"gpu_memory_utilization": 0.5, "swap_space_gib": 1.0} | cache}


@pytest.mark.parametrize("free_gib, blocks, words", [(20, 1023, "1.00 GiB"), (2, 511, "0.50 GiB")])
def test_a_cpu_gives_1_gib_or_a_quarter_of_what_is_free(
    free_gib: int, blocks: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_size, "available_bytes", lambda device: free_gib * GIB)
    found, why = device_blocks(config(), torch.device("cpu"), SHAPE, MIB)
    assert found == blocks and why == f"{words}: 1 GiB, or a quarter of what is free, 1 MiB a block"


def test_a_gpu_gives_its_share_less_what_is_in_use_and_the_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's rule: 24 GiB x 0.5 - 8 in use - activations = 1,024 tokens x (2 x 64 + 3 x 128) x 2 bytes = 1 MiB."""
    monkeypatch.setattr(pool_size, "available_bytes", lambda device: 16 * GIB)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (16 * GIB, 24 * GIB))
    found, why = device_blocks(config(), torch.device("cuda"), SHAPE, MIB)
    assert found == 4 * 1024 - 1 - 1  # the activations' block, and the one that is nobody's
    assert why == "0.5 of 24.00 GiB - in use 8.00 - activations 0.00, 1 MiB a block"
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (16 * GIB, 40 * GIB))
    with pytest.raises(EngineError, match="leave no room for two blocks"):
        device_blocks(config(), torch.device("cuda"), SHAPE, MIB)


def test_the_host_gives_what_is_asked_for_or_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_size, "available_bytes", lambda device: 4 * GIB)
    assert host_blocks(config(), MIB) == (1024, [])
    blocks, (note,) = host_blocks(config(swap_space_gib=3.0), MIB)
    assert blocks == 2048 and note.startswith("cache.num_cpu_blocks=2,048: half of the host's free memory")


@pytest.mark.parametrize(
    "policy, mode, pause, swaps",
    [
        ("fcfs", "recompute", "recompute", False), ("fcfs", "swap", "recompute", True), ("fcfs", "auto", "recompute", True),
        ("fcfs", "keep", "recompute", True), ("fcfs", "recompute", "swap", True), ("fcfs", "recompute", "keep", False),
        ("mlfq", "recompute", "recompute", True),  # moves blocks ahead of need
    ],
)  # fmt: skip
def test_a_host_pool_is_for_those_who_may_swap(policy: str, mode: str, pause: str, swaps: bool) -> None:
    given = {"policy": {"preemption_mode": mode, "pause": pause}}
    assert may_swap(given, assemble(policy, {}).policy) is swaps


def test_all_seeds_have_the_same_pools_and_one_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The memory that is free shrinks with each look at it."""
    from engine.cli.main import main

    free = iter(range(4 * GIB, 0, -(GIB // 4)))
    monkeypatch.setattr(pool_size, "available_bytes", lambda device: next(free))
    monkeypatch.chdir(tmp_path)
    words = [*TRACE, *PLAIN, "model=tiny", "seeds=2", "policy.preemption_mode=swap", "engine.skip_idle=true"]
    assert main(["run", *words, "engine.threads=1", "cache.swap_space_gib=0.001", "hydra.run.dir=out"]) == 0
    import yaml

    pools = [yaml.safe_load((tmp_path / f"out/seed={seed}/config.yaml").read_text())["cache"] for seed in (0, 1)]
    assert pools[0] == pools[1] and pools[0]["num_cpu_blocks"] == int(0.001 * GIB) // (16 * 2 * 2 * 2 * 16 * 4)


def test_observed_scales_hold_twice_the_largest_numbers_of_a_prompt() -> None:
    model = load_model(TINY, "fp32", max_len=64)
    cache = KVCache(TINY.layers, 4, 16, TINY.kv_heads, TINY.head_dim, torch.float8_e4m3fn, "cpu")
    assert (cache.scales == 1).all()
    observe_scales(model, cache)
    assert ((cache.scales > 0) & (cache.scales != 1)).all()
    # the largest key of layer 0, by the definition: norm, projection, rotation of what the prompt's embeddings are
    from engine.contents import tokens_of

    weights, config = model.weights, model.config
    x = model.ops.rms_norm(
        weights.embedding[tokens_of(0, "scales", 0, 64, config.vocab)], weights.layers[0].input_norm, 1e-6
    )
    qkv = weights.layers[0].qkv(x).view(64, -1, config.head_dim)
    q, k, v = qkv.split((config.heads, config.kv_heads, config.kv_heads), 1)
    _, k = model.ops.rope(q, k, model.cos, model.sin, torch.arange(64))
    torch.testing.assert_close(cache.k_scale(0), k.abs().amax((0, 2)) * MARGIN / 448)
    torch.testing.assert_close(cache.v_scale(0), v.abs().amax((0, 2)) * MARGIN / 448)
