"""The content of prompts in a file: lists of hash ids, or of the token ids themselves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from traces.prefix import Prefix
from traces.readers.rows import Cells, Rows


def content(
    name: str, cells: Cells, rows: Rows, prompt_tokens: np.ndarray, hash_block_tokens: int, whole: bool = True
) -> Prefix:
    """Lists of ids, one for every `hash_block_tokens` tokens of the prompt, the last of which may be partly filled.

    A row whose number of ids is not ceil(prompt / hash_block_tokens) is rejected; unless the list is to be of the
    `whole` prompt it may be shorter. What has no id, or a row without a list, is content that no other prompt has.
    """
    lists: list[Sequence] = []
    for row, (cell, tokens) in enumerate(zip(cells, prompt_tokens.tolist(), strict=True)):
        needed = -(-tokens // hash_block_tokens)
        if isinstance(cell, list) and (len(cell) == needed or (len(cell) < needed and not whole)):
            lists.append(cell)
            continue
        lists.append(())
        if isinstance(cell, list):
            rows.reject(
                row,
                f"{name} has {len(cell)} entries, a prompt of {tokens} tokens in blocks of "
                f"{hash_block_tokens} {'needs' if whole else 'has at most'} {needed}",
            )
        elif cell is not None:
            rows.reject(row, f"{name} must be a list")
    if set(map(type, chain.from_iterable(lists))) <= {int}:
        try:
            return Prefix.of(lists, prompt_tokens, hash_block_tokens)
        except OverflowError:
            pass  # ids of more than 63 bits: number them
    return Prefix.of(numbered(name, lists, rows), prompt_tokens, hash_block_tokens)


def numbered(name: str, lists: list[Sequence], rows: Rows) -> list[list[int]]:
    """Ids of any size, or text, by number: the same id, the same number. Other ids reject their row."""
    numbers: dict[object, int] = {}
    result: list[list[int]] = []
    for row, ids in enumerate(lists):
        if all(type(entry) in (int, str) for entry in ids):
            result.append([numbers.setdefault(entry, len(numbers)) for entry in ids])
        else:
            rows.reject(row, f"{name} must hold integers or text")
            result.append([])
    return result
