"""`twin traces show NAME | FILE`: what a trace is like; a generator beside its source."""

from pathlib import Path

from twin.cli.errors import UserError, naming
from twin.cli.traces_words import opened, parsed, take

HELP = """usage: python -m twin traces show NAME | FILE [key=value ...]

Prints a trace's rate, burstiness (coefficient of variation of the gaps, Fano factor, autocorrelation), lengths and
their correlation, and draws them. A generator is shown beside its source: the committed figures, or with source=FILE
the source itself. Burstiness differs from seed to seed, so it is the median of some seeds, with the range.

options
  seeds=5          how many seeds, from seed=0 up, for a generator with a source
  source=FILE      compare with this file (or other trace) instead of the committed figures
  out=FILE.png     where the figure goes; default traces_NAME.png
  figure=true      false draws none
  key=value        options of the trace as in `twin run`, with or without `trace.`: num_requests, rate, format, ...

example: python -m twin traces show chat seed=1 num_requests=20000
"""
MOST_SHOWN = {"agent": 5_000}  # requests made unless num_requests says more: where a request is large
MOST = 20_000


def main(words: list[str]) -> int:
    """Prints the table, writes the figure."""
    from traces.generators import GENERATORS
    from traces.sources import SOURCES
    from twin.cli.traces_curves import draw
    from twin.cli.traces_table import print_table

    (name,), options = parsed(words, "NAME")
    mine = take(options, {"seed": 0, "seeds": 5, "figure": True, "out": None, "source": None})
    out = Path(str(mine["out"] or f"traces_{Path(name).stem.split('.')[0] or 'trace'}.png"))
    if mine["figure"] and (out.suffix != ".png" or not out.parent.is_dir()):
        raise UserError(f"out={out}: must be a .png in a folder that exists")
    if mine["seeds"] < 1:
        raise UserError("seeds=0: must be at least 1")
    source = SOURCES.get(name)
    if source is not None and mine["source"] is None and "num_requests" not in options and "duration_s" not in options:
        options["num_requests"] = min(int(source.figures["requests"]), MOST_SHOWN.get(name, MOST))
    with naming(name):
        other = None if mine["source"] is None else opened(str(mine["source"]), {"seed": mine["seed"]})
        if other is not None and name in GENERATORS and "num_requests" not in options and "duration_s" not in options:
            options["num_requests"] = len(other)
        compared = name in GENERATORS and (source is not None or other is not None)
        seeds = range(mine["seed"], mine["seed"] + (mine["seeds"] if compared else 1))
        made = [opened(name, options | {"seed": seed}) for seed in seeds]
    print("\n".join(made[0].report.lines()))
    print_table(made, source if other is None else None, other)
    if mine["figure"]:
        with naming(f"out={out}"):
            draw(out, name, made[0], source if other is None else None, other)
        print(f"figure written to {out}")
    return 0
