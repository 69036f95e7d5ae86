"""Token ids of prompts, and the chained keys of their blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MOST_IDS = 10_000_000
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


def parse_prompt(text: Any, place: str) -> list[int]:
    """Token ids from ranges and commas: "0-31,900-907". Raises ValueError that names `place`."""
    if isinstance(text, list):
        if not text or not all(type(token) is int and token >= 0 for token in text):
            raise ValueError(f"{place}: prompt must list token ids, integers of at least 0")
        return text
    tokens: list[int] = []
    for part in str(text).split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f'{place}: prompt {text!r} must be token ids and ranges such as "0-31,900-907"')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(tokens) + last - first >= MOST_IDS:
            raise ValueError(f"{place}: prompt range {part.strip()!r} must ascend and be shorter than {MOST_IDS:,} ids")
        tokens.extend(range(first, last + 1))
    return tokens


def chained_keys(prompts: Mapping[str, Sequence[int]], block_size: int) -> dict[str, list[int]]:
    """For each prompt a key of each full block: equal where, and only where, all tokens up to the block's end agree."""
    names: dict[tuple[Any, ...], int] = {}
    keys: dict[str, list[int]] = {}
    for name, tokens in prompts.items():
        chain: list[int] = []
        for start in range(0, len(tokens) - block_size + 1, block_size):
            prefix = (chain[-1] if chain else None, *tokens[start : start + block_size])
            chain.append(names.setdefault(prefix, len(names)))
        keys[name] = chain
    return keys
