"""The start-up log of `vllm serve`, and what it says of the server's configuration.

Lines that vLLM 0.11 to 0.33 print, each with a prefix of process, level, date and source, and with these in it:

    vLLM API server version 0.11.0            (later "vLLM server version 0.32.0, serving model ...", or that in a banner)
    non-default args: {'model': '...', 'max_num_seqs': 16, ...}         what was asked for
    Using max model len 1024
    Chunked prefill is enabled with max_num_batched_tokens=512.
    Asynchronous scheduling is enabled.                                 (0.21; since then only a warning where it is not)
    Initializing a V1 LLM engine (v0.32.0) with config: model='...', max_seq_len=1024, tensor_parallel_size=1, ...
    Overriding num_gpu_blocks=8192 with num_gpu_blocks_override=96
    GPU KV cache size: 3,072 tokens                                     (or CPU, or another device)

Of several starts in a file the last counts. Nothing of the text is executed.
"""

from __future__ import annotations

import re
from pathlib import Path

from twin.calibrate.server.findings import ASKED, TAKEN, Said
from twin.calibrate.server.printed import CutOff, Plain, entries, plain

PRESETS = ((0, 11), (0, 21), (0, 32), (0, 33))  # of `system`, by vLLM's version (docs/vllm.md)
ASYNC_SINCE = (0, 21)  # the first of these in which it is the default

ARGS = "non-default args: {"
CONFIG = re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^)]*)\) with config: ")
VERSION = re.compile(r"vLLM (?:API )?server version (?P<api>[^\s,]+)|version (?P<banner>\d+\.\d+\.\S+)\s*$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MODEL_LEN = re.compile(r"Using max model len (\d+)\s*$")
BUDGET = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)\.")
ASYNCHRONOUS = re.compile(r"Asynchronous scheduling is (enabled|disabled)\.")
NOT_ASYNCHRONOUS = re.compile(r"(?i)async(hronous)? scheduling .*(will be disabled|is disabled)")
OVERRIDE = re.compile(r"Overriding num_gpu_blocks=\d+ with num_gpu_blocks_override=(\d+)")
CACHE_TOKENS = re.compile(r"\b[A-Z]+ KV cache size: ([\d,]+) tokens")
LAST_BUT_ONE = "compilation_config"  # of the engine's configuration, in all versions: one without is not whole
SIGNS = (ARGS, "Initializing a V1 LLM engine", "KV cache size: ", "vLLM API server version", "Using max model len")

WHOLE, SWITCH, WORD = (int,), (bool,), (str,)
FROM_ARGS = {  # vLLM's argument: (ours, what it must be)
    "max_model_len": ("model.max_model_len", WHOLE),
    "block_size": ("cache.block_size", WHOLE),
    "max_num_seqs": ("scheduler.max_num_seqs", WHOLE),
    "max_num_batched_tokens": ("scheduler.max_num_batched_tokens", WHOLE),
    "long_prefill_token_threshold": ("scheduler.long_prefill_token_threshold", WHOLE),
    "enable_prefix_caching": ("cache.enable_prefix_caching", SWITCH),
    "enable_chunked_prefill": ("scheduler.enable_chunked_prefill", SWITCH),
    "async_scheduling": ("scheduler.async_scheduling", SWITCH),
    "tensor_parallel_size": ("parallel.tensor_parallel_size", WHOLE),
    "pipeline_parallel_size": ("parallel.pipeline_parallel_size", WHOLE),
    "scheduling_policy": ("policy", WORD),
}
FROM_CONFIG = {  # of the engine's configuration
    "max_seq_len": ("model.max_model_len", WHOLE),
    "tensor_parallel_size": ("parallel.tensor_parallel_size", WHOLE),
    "pipeline_parallel_size": ("parallel.pipeline_parallel_size", WHOLE),
    "enable_prefix_caching": ("cache.enable_prefix_caching", SWITCH),
    "enable_chunked_prefill": ("scheduler.enable_chunked_prefill", SWITCH),
    "chunked_prefill_enabled": ("scheduler.enable_chunked_prefill", SWITCH),  # 0.11
}
CACHE_TYPES = {  # vLLM's words for ours
    "auto": "auto", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip


def is_startup_log(text: str) -> bool:
    return any(sign in text for sign in SIGNS)


def read_startup_log(path: Path, text: str) -> Said:
    """What the log says. Raises ValueError, in one line, where it is cut off or holds no start of a vLLM V1."""
    lines = COLOUR.sub("", text).splitlines()
    said = Said(path.name)
    if lines and not text.endswith("\n") and ARGS not in lines[-1] and not CONFIG.search(lines[-1]):
        said.notes.append(f"{path.name}: the last line has no end: left out, it may be cut off")
        lines.pop()
    starts = [number for number, line in enumerate(lines) if ARGS in line]
    if len(starts) > 1:
        said.notes.append(f"{path.name}: {len(starts)} starts; the last is taken, from line {starts[-1] + 1}")
    begin = since(lines, starts[-1]) if starts else 0
    device = ""
    for number, line in enumerate(lines[begin:], start=begin + 1):
        where = f"{path.name}, line {number}"
        if ARGS in line:
            read_args(said, line.partition(ARGS)[2], where)
        elif match := CONFIG.search(line):
            take_version(said, match["version"], where)
            device = read_config(said, line[match.end() :], where) or device
        else:
            read_line(said, line, where)
    if not said.findings and said.version is None:
        raise ValueError(
            f"served={path}: says nothing of a vLLM V1: its start-up log, from the first line on, is looked for"
        )
    take_scheduling(said, device)
    return said


def since(lines: list[str], start: int) -> int:
    """The line with which a start begins: its version stands a few lines before its arguments."""
    for number in range(start, max(start - 12, -1), -1):
        if VERSION.search(lines[number]):
            return number
    return start


def read_line(said: Said, line: str, where: str) -> None:
    """Lines that say one thing."""
    if match := VERSION.search(line):
        take_version(said, match["api"] or match["banner"], where)
    elif match := MODEL_LEN.search(line):
        said.add("model.max_model_len", int(match[1]), f"{where}: max model len", ASKED)  # a draft model prints one too
    elif match := BUDGET.search(line):
        said.add("scheduler.max_num_batched_tokens", int(match[1]), f"{where}: Chunked prefill is enabled with ...")
    elif match := ASYNCHRONOUS.search(line):
        said.add("scheduler.async_scheduling", match[1] == "enabled", f"{where}: Asynchronous scheduling is {match[1]}")
    elif NOT_ASYNCHRONOUS.search(line):
        said.add("scheduler.async_scheduling", False, f"{where}: asynchronous scheduling is disabled")
    elif match := OVERRIDE.search(line):
        said.add(
            "cache.num_gpu_blocks", int(match[1]) - 1, f"{where}: num_gpu_blocks_override={match[1]}, less the null block"
        )
    elif match := CACHE_TOKENS.search(line):
        tokens = int(match[1].replace(",", ""))
        if said.cache_tokens is not None and said.cache_tokens[0] != tokens:
            said.notes.append(f"{where}: a KV cache of {tokens:,} tokens, another than that of {said.cache_tokens[1]}")
            tokens, where = min((tokens, where), said.cache_tokens)
        said.cache_tokens = (tokens, f"{where.removesuffix(': KV cache size')}: KV cache size")


def read_args(said: Said, text: str, where: str) -> None:
    """The arguments that were not vLLM's defaults."""
    args = taken_apart(text, ":", where, inside=True)
    for name, (option, kinds) in FROM_ARGS.items():
        take(said, option, args.get(name), kinds, f"{where}: {name}", ASKED)
    take_cache_type(said, args.get("kv_cache_dtype"), f"{where}: kv_cache_dtype", ASKED)
    if args.get("num_gpu_blocks_override", "None").isdecimal():
        blocks = int(args["num_gpu_blocks_override"])
        said.add(
            "cache.num_gpu_blocks", blocks - 1, f"{where}: num_gpu_blocks_override={blocks}, less the null block", ASKED
        )
    for name in ("scheduler_cls", "kv_transfer_config"):
        if args.get(name, "None") != "None":
            said.notes.append(f"{where}: {name} is set, which is not simulated")


def read_config(said: Said, text: str, where: str) -> str:
    """The engine's configuration; returns its device."""
    config = taken_apart(text, "=", where)
    if LAST_BUT_ONE not in config:
        raise ValueError(f"served: {where}: cut off: the engine's configuration has no {LAST_BUT_ONE}; give the whole log")
    for name, (option, kinds) in FROM_CONFIG.items():
        take(said, option, config.get(name), kinds, f"{where}: {name}")
    take_cache_type(said, config.get("kv_cache_dtype"), f"{where}: kv_cache_dtype")
    replicas = config.get("data_parallel_size", "1")
    if replicas != "1":
        said.notes.append(f"{where}: data_parallel_size={replicas}; one replica is simulated, with the requests of one")
    if config.get("speculative_config", "None") != "None":
        said.notes.append(f"{where}: speculative decoding, which is not simulated")
    return config.get("device_config", "")


def taken_apart(text: str, separator: str, where: str, inside: bool = False) -> dict[str, str]:
    try:
        return entries(text, separator, inside)
    except CutOff as error:
        raise ValueError(f"served: {where}: {error}; give the whole log") from None


def take(said: Said, option: str, value: str | None, kinds: tuple[type, ...], where: str, rank: int = TAKEN) -> None:
    """A value of the kind that the option has; `auto` and its like are left to the lines that say what came of them."""
    if value is None or value == "None":
        return
    try:
        read: Plain = plain(value)
    except ValueError:
        return
    if type(read) in kinds and (not isinstance(read, int) or isinstance(read, bool) or read >= 0):
        said.add(option, read, where, rank)


def take_cache_type(said: Said, value: str | None, where: str, rank: int = TAKEN) -> None:
    if value is None:
        return
    name = value.strip("'\"")
    if name in CACHE_TYPES:
        said.add("cache.kv_cache_dtype", CACHE_TYPES[name], where, rank)
    else:
        said.notes.append(f"{where}={name} is none of ours; give cache.kv_cache_dtype")


def take_version(said: Said, text: str, where: str) -> None:
    """The preset that is nearest to the version."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
    if match is None:
        said.notes.append(f"{where}: version {text} is not understood; give system=...")
        return
    version = (int(match[1]), int(match[2]))
    if said.version is not None:
        if said.version != version:
            raise ValueError(
                f"served: {where}: version {text}, before it was {said.version[0]}.{said.version[1]}; two servers?"
            )
        return
    said.version = version
    nearest = min(PRESETS, key=lambda one: abs(one[1] - version[1])) if version < PRESETS[-1] else PRESETS[-1]
    said.add("system", "vllm-{}.{}".format(*nearest), f"{where}: version {text}")
    if nearest != version:
        said.notes.append(
            f"vLLM {text}: vllm-{nearest[0]}.{nearest[1]} is the nearest preset (docs/vllm.md says what differs)"
        )


def take_scheduling(said: Said, device: str) -> None:
    """Whether steps overlap, where no line says it: never on a CPU, else by default. Without a device it is left open."""
    if device == "cpu":
        said.findings = [one for one in said.findings if one.option != "scheduler.async_scheduling"]
        said.add("scheduler.async_scheduling", False, f"{said.source}: device_config=cpu, where vLLM is synchronous")
    elif device and said.version in PRESETS and not any(one.option == "scheduler.async_scheduling" for one in said.findings):
        default = said.version >= ASYNC_SINCE
        said.add("scheduler.async_scheduling", default, f"vLLM's default in {said.version[0]}.{said.version[1]}", ASKED)
