"""The columns of requests.parquet and steps.parquet: names, order, types, meaning.

A table in memory is a dict from a column's name to a numpy array: float64 (nan: it never happened), int64, or object
for strings (None: not given). In the files nan and None are null.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Table = dict[str, np.ndarray]

FINISHED, REJECTED, ABORTED, UNFINISHED = "finished", "rejected", "aborted", "unfinished"
STATUSES = (FINISHED, REJECTED, ABORTED, UNFINISHED)


class Column(NamedTuple):
    kind: str  # "float" (float64), "int" (int64) or "str" (objects)
    meaning: str
    default: Any = ...  # what stands for a column that was not handed in; ... if it must be


REQUESTS: dict[str, Column] = {
    "request_id": Column("str", "unique in the trace"),
    "arrival_s": Column("float", "when it came"),
    "prompt_tokens": Column("int", "length of its prompt"),
    "output_tokens": Column("int", "output asked for, a sample"),
    "generated_tokens": Column("int", "output that came, all samples together"),
    "status": Column("str", "finished, rejected, aborted or unfinished"),
    "reason": Column("str", "why it ended: length, stop, or what it was rejected for", None),
    "first_scheduled_s": Column("float", "start of the first step that gave it tokens"),
    "first_token_s": Column("float", "end of the step that completed its prompt"),
    "finish_s": Column("float", "end of the step that gave its last token; when it was rejected or aborted"),
    "ttft_s": Column("float", "first_token_s - arrival_s", np.nan),
    "tpot_s": Column("float", "(finish_s - first_token_s) / (generated_tokens - 1)", np.nan),
    "e2e_s": Column("float", "finish_s - arrival_s", np.nan),
    "queue_s": Column("float", "first_scheduled_s - arrival_s", np.nan),
    "cached_tokens": Column("int", "of its prompt, found in the prefix cache at first admission", 0),
    "preemptions": Column("int", "how often it lost its seat", 0),
    "swap_outs": Column("int", "how often its blocks went to the host", 0),
    "recomputed_tokens": Column("int", "tokens whose KV was computed again", 0),
    "user": Column("str", "who asked", None),
    "session": Column("str", "the conversation it belongs to", None),
    "priority": Column("int", "smaller is more urgent", 0),
    "replica": Column("int", "which replica served it", 0),
    "deadline_s": Column("float", "when its answer is due", np.nan),
}

STEPS: dict[str, Column] = {
    "replica": Column("int", "whose step it is", 0),
    "step": Column("int", "number of the row's first step, from 1"),
    "start_s": Column("float", "start of the row's first step"),
    "duration_s": Column("float", "of all the row's steps together"),
    "repeat": Column("int", "how many steps the row stands for", 1),
    "prefill_tokens": Column("int", "prompt (or recomputed) tokens in each of its steps", 0),
    "decode_tokens": Column("int", "decode tokens in each of its steps", 0),
    "sequences": Column("int", "sequences in each of its steps"),
    "context_tokens": Column("int", "sum of the sequences' context lengths after the row's last step", 0),
    "waiting": Column("int", "requests that wait after the row"),
    "running": Column("int", "requests that hold a seat after the row"),
    "swapped": Column("int", "requests that lie in the host pool after the row", 0),
    "used_blocks": Column("int", "blocks with references after the row"),
    "cached_blocks": Column("int", "blocks without references that still hold a cached prefix", 0),
    "free_blocks": Column("int", "all other blocks: used + cached + free = the pool"),
    "preempted": Column("int", "preemptions in the row", 0),
    "swapped_in_blocks": Column("int", "blocks brought back from the host in the row", 0),
    "swapped_out_blocks": Column("int", "blocks sent to the host in the row", 0),
}

MORE_REQUESTS: dict[str, Column] = {"n": Column("int", "parallel samples")}  # kept behind the others where they are given
MORE_STEPS: dict[str, Column] = {  # of a real engine's steps: what is needed to fit a latency model to them
    "device_s": Column("float", "of duration_s, what the device itself was busy"),
    "prefill_context_tokens": Column("int", "context_tokens of the sequences with prefill"),
    "prefill_attention": Column("float", "query-key pairs of the prefill: sum of tokens * (computed before + tokens / 2)"),
    "prefill_sequences": Column("int", "sequences with prefill"),
}

_DTYPES = {"float": np.dtype(np.float64), "int": np.dtype(np.int64), "str": np.dtype(object)}


def complete(
    columns: Mapping[str, Column], given: Mapping[str, np.ndarray | Sequence[Any]], more: Mapping[str, Column]
) -> Table:
    """`given` with every column present, in order and of its type. Raises ValueError for one missing or misspelt.

    Of the columns `more` those that are given are kept behind the others.
    """
    strangers = [name for name in given if name not in columns and name not in more]
    if strangers:
        raise ValueError(f"no such column: {', '.join(strangers)} (there are {', '.join(columns)})")
    lengths = {name: len(values) for name, values in given.items()}
    rows = max(lengths.values(), default=0)
    uneven = [f"{name} has {length}" for name, length in lengths.items() if length != rows]
    if uneven:
        raise ValueError(f"columns of unequal length: {', '.join(uneven)} of {rows} rows")
    table: Table = {}
    for name, column in columns.items():
        if name in given:
            table[name] = _as_array(given[name], _DTYPES[column.kind])
        elif column.default is ...:
            raise ValueError(f"the column {name} is missing ({column.meaning})")
        else:
            table[name] = np.full(rows, column.default, dtype=_DTYPES[column.kind])
    return table | {name: _as_array(given[name], _DTYPES[more[name].kind]) for name in more if name in given}


def _as_array(values: np.ndarray | Sequence[Any], dtype: np.dtype) -> np.ndarray:
    if dtype.kind != "O" or isinstance(values, np.ndarray):
        return np.asarray(values, dtype=dtype)
    array = np.empty(len(values), dtype=object)  # np.asarray would unpack strings' siblings such as tuples
    array[:] = values
    return array
