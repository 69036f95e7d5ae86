"""What a scrape of vLLM's /metrics says of the configuration: the labels of vllm:cache_config_info."""

from __future__ import annotations

from collections.abc import Mapping

from twin.calibrate.server.findings import Said
from twin.calibrate.server.startup_log import SWITCH, WHOLE, take, take_cache_type

INFO = "vllm:cache_config_info"


def read_cache_info(source: str, labels: Mapping[str, str]) -> Said:
    """`labels` of the one engine; the number of blocks counts the null block too."""
    said, where = Said(source), f"{source}: {INFO}"
    take(said, "cache.block_size", labels.get("block_size"), WHOLE, f"{where}: block_size")
    take(said, "cache.enable_prefix_caching", labels.get("enable_prefix_caching"), SWITCH, f"{where}: enable_prefix_caching")
    take_cache_type(said, labels.get("cache_dtype"), f"{where}: cache_dtype")
    blocks = labels.get("num_gpu_blocks", "None")
    if blocks.isdecimal() and int(blocks) > 1:
        said.add("cache.num_gpu_blocks", int(blocks) - 1, f"{where}: num_gpu_blocks={blocks}, less the null block")
    return said
