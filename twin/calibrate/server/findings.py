"""Options of ours that a server's log or scrape tells, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twin.calibrate.server.printed import Plain

ASKED, TAKEN = 0, 1  # an argument that was given to vLLM; what vLLM then says that it uses, which counts

LOOKED_FOR = {  # option: what it is in vLLM, for the line that says that it was not found
    "system": "version",
    "model.max_model_len": "longest request",
    "cache.block_size": "block size",
    "cache.num_gpu_blocks": "size of the KV cache",
    "cache.kv_cache_dtype": "type of the KV cache",
    "cache.enable_prefix_caching": "prefix caching",
    "scheduler.max_num_seqs": "seats",
    "scheduler.max_num_batched_tokens": "token budget",
    "scheduler.async_scheduling": "asynchronous scheduling",
    "parallel.tensor_parallel_size": "tensor parallel",
}


@dataclass(frozen=True)
class Finding:
    """One option and where it stands; the higher rank counts where two differ."""

    option: str
    value: Plain
    where: str  # "serve.log, line 8: max_num_seqs"
    rank: int = TAKEN

    @property
    def word(self) -> str:
        shown = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{self.option}={shown}"


@dataclass
class Said:
    """All that one file says."""

    source: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Tokens of the KV cache, where no line says its blocks, and where that stands; the block size may be the user's.
    cache_tokens: tuple[int, str] | None = None
    version: tuple[int, int] | None = None

    def add(self, option: str, value: Plain, where: str, rank: int = TAKEN) -> None:
        self.findings.append(Finding(option, value, where, rank))


@dataclass(frozen=True)
class Server:
    """What is taken from the server's own words."""

    words: tuple[str, ...] = ()  # options, to be composed before the user's own
    lines: tuple[str, ...] = ()  # whence each
    silent: tuple[str, ...] = ()  # options that nothing was said of

    def told(self, values: Mapping[str, Any]) -> list[str]:
        """Lines for the user; `values` is the configuration that was composed of all."""
        lines = list(self.lines)
        for option in self.silent:
            what = f"not said ({LOOKED_FOR[option]})"
            lines.append(f"{option}: {what}; {shown(values, option)}, unless you give it")
        return lines


def shown(values: Mapping[str, Any], option: str) -> str:
    """What stays where nothing is said."""
    section, _, name = option.partition(".")
    if not name:
        return "the rules of the default stay"
    value = values[section].get(name)
    return "it is left open" if value is None else f"{str(value).lower() if isinstance(value, bool) else value} stays"


def settled(found: Iterable[Finding], given: Collection[str], notes: list[str]) -> dict[str, Finding]:
    """One finding an option: what vLLM took before what it was asked for.

    Raises ValueError where two of one rank differ, unless the user gives the option.
    """
    chosen: dict[str, Finding] = {}
    for finding in found:
        other = chosen.setdefault(finding.option, finding)
        if other is finding or other.value == finding.value:
            continue
        if other.rank != finding.rank:
            low, high = sorted((other, finding), key=lambda one: one.rank)
            notes.append(f"{high.option}: asked for {low.value} ({low.where}), the server took {high.value} ({high.where})")
            chosen[finding.option] = high
        elif finding.option not in given:
            raise ValueError(
                f"served: {finding.option} is {other.value} by {other.where}, and {finding.value} by {finding.where}; two "
                f"servers? give {finding.option}=..., or the log of one"
            )
    return chosen


def server(said: Sequence[Said], given: Mapping[str, str], block_size: int) -> Server:
    """The options to take from what the files say. `given` are the user's own, value by option, which count before all.

    `block_size` is the one that counts where neither says it.
    """
    notes = [note for one in said for note in one.notes]
    chosen = settled([finding for one in said for finding in one.findings], given, notes)
    add_blocks(said, chosen, given, block_size, notes)
    lines, words, silent = [], [], []
    for option in dict.fromkeys((*LOOKED_FOR, *chosen)):
        finding = chosen.get(option)
        if option in given:
            if finding is not None and finding.word != f"{option}={given[option]}":
                lines.append(f"{option}={given[option]} as given; {finding.where} says {finding.value}")
        elif finding is None:
            silent.append(option)
        else:
            words.append(finding.word)
            lines.append(f"{finding.word}  ({finding.where})")
    return Server(tuple(words), (*lines, *(f"note: {note}" for note in notes)), tuple(silent))


def add_blocks(
    said: Sequence[Said], chosen: dict[str, Finding], given: Mapping[str, str], block_size: int, notes: list[str]
) -> None:
    """The pool from the tokens that it holds, where no line says its blocks."""
    told = next((one for one in said if one.cache_tokens is not None), None)
    if told is None or told.cache_tokens is None or "cache.num_gpu_blocks" in chosen:
        return
    tokens, where = told.cache_tokens
    size, of = whole("cache.block_size", chosen, given), ""
    if size is None:
        size, of = block_size, ", the default,"
    blocks = blocks_of(tokens, size, whole("model.max_model_len", chosen, given), told.version)
    if blocks is None:
        notes.append(f"{where}: {tokens:,} tokens are no whole number of blocks of {size}{of}; give cache.num_gpu_blocks")
        return
    where += f" of {tokens:,} tokens in blocks of {size}{of} less the null block"
    chosen["cache.num_gpu_blocks"] = Finding("cache.num_gpu_blocks", blocks - 1, where)


def whole(option: str, chosen: Mapping[str, Finding], given: Mapping[str, str]) -> int | None:
    """The number that will count, where one is given or found."""
    if option in given:
        return int(given[option]) if given[option].isdecimal() else None
    value = chosen[option].value if option in chosen else None
    return value if isinstance(value, int) else None


def blocks_of(tokens: int, block_size: int, max_model_len: int | None, version: tuple[int, int] | None) -> int | None:
    """Blocks, the null block among them, of a KV cache that is printed in tokens; None where it cannot be told.

    vLLM 0.11 prints blocks x block_size; from 0.21 on it prints blocks / ceil(max_model_len / block_size) x max_model_len,
    rounded down, which is the same where the block size divides max_model_len. Between them only what both agree on is told.
    """
    if block_size < 1:
        return None
    blocks = -(-tokens // block_size)
    plainly = blocks if blocks * block_size - tokens <= 1 else None  # rounded down, it may be one token short
    if not max_model_len or max_model_len % block_size == 0:
        return plainly
    by_requests = -(-tokens * -(-max_model_len // block_size) // max_model_len)
    if version is None or (0, 11) < version < (0, 21):
        return plainly if plainly == by_requests else None
    return plainly if version <= (0, 11) else by_requests
