"""Kernel tables read from a folder of CSV files, in the layout of LLMServingSim's profiler (`perf_v1`)."""

import csv
from collections.abc import Iterable
from pathlib import Path

from twin.latency.surface import Knots, Surface, curve
from twin.latency.table import KernelTables

ONCE = ("embedding", "final_layernorm", "lm_head", "sampler")  # layers that a model has once
TWICE = ("layernorm",)  # before attention and before the feed-forward part
COLUMNS = {
    "dense.csv": ("layer", "tokens", "time_us"),
    "per_sequence.csv": ("layer", "sequences", "time_us"),
    "attention.csv": ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"),
}


def read_kernel_tables(folder: str | Path, layers: int) -> KernelTables:
    """The tables of a folder that holds dense.csv, per_sequence.csv and attention.csv, for a model of `layers` layers.

    Times in the files are microseconds of one call in one layer. A missing column is an error that names it.
    """
    folder = Path(folder)
    dense = read_rows(folder / "dense.csv")
    head = read_rows(folder / "per_sequence.csv")
    attention = read_rows(folder / "attention.csv")
    seconds = layers * 1e-6
    decode = {(n, kv): t for chunk, _, n, kv, t in attention if chunk == 0 and n > 0}
    prefill = {(chunk, kv): t for chunk, kv, n, _, t in attention if n == 0 and chunk > 0}
    return KernelTables(
        dense=layer_sum(dense, layers, str(folder / "dense.csv")),
        head=layer_sum(head, layers, str(folder / "per_sequence.csv")),
        decode_attention=Surface(
            ((n, kv, t * seconds) for (n, kv), t in decode.items()), f"{folder / 'attention.csv'}: decode"
        ),
        prefill_attention=Surface(
            ((chunk, kv + chunk / 2, t * seconds) for (chunk, kv), t in prefill.items()),
            f"{folder / 'attention.csv'}: prefill",
        ),
        source=str(folder),
    )


def read_rows(path: Path) -> list[tuple]:
    """The rows of a CSV file with the columns it must have; the first column of layers stays text."""
    columns = COLUMNS[path.name]
    if not path.is_file():
        raise ValueError(f"{path}: no such file; a folder of kernel tables holds {', '.join(COLUMNS)}")
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(f"{path}: missing column {', '.join(missing)}; there must be {', '.join(columns)}")
        rows = []
        for row in reader:
            try:
                values = tuple(row[name] if name == "layer" else float(row[name]) for name in columns)
            except (TypeError, ValueError):
                raise ValueError(f"{path}, line {reader.line_num}: a number is missing or malformed") from None
            if not 0 < float(values[-1]) < float("inf"):
                raise ValueError(f"{path}, line {reader.line_num}: time_us must be above 0, not {row['time_us']}")
            rows.append(values)
    return rows


def layer_sum(rows: Iterable[tuple], layers: int, what: str) -> Knots:
    """Seconds of all layers together over the sizes that every layer was measured at."""
    by_layer: dict[str, list[tuple[float, float]]] = {}
    for layer, size, time_us in rows:
        calls = 1 if layer in ONCE else 2 * layers if layer in TWICE else layers
        by_layer.setdefault(layer, []).append((size, calls * time_us * 1e-6))
    curves = [dict(zip(*curve(points, what), strict=True)) for points in by_layer.values()]
    sizes = set.intersection(*(set(known) for known in curves)) if curves else set()
    return curve(((size, sum(known[size] for known in curves)) for size in sizes), what)
