"""`twin traces convert IN OUT`: any readable trace as a file of this project's table."""

from pathlib import Path

from twin.cli.errors import UserError, naming
from twin.cli.traces_words import opened, parsed, take

HELP = """usage: python -m twin traces convert IN OUT.parquet | OUT.csv [key=value ...]

Reads IN (a file of any format, or a built-in trace) and writes OUT whole or not at all; `trace=file trace.path=OUT`
gives the same requests, bit for bit. CSV cannot hold who shares prefixes.

options
  force=true   replace OUT if it exists
  seed=0       of every random draw
  key=value    options of the trace as in `twin run`, with or without `trace.`: format, on_error, num_requests, rate,
               from_s, to_s, sample, max_prompt_tokens, users, day_curve, ...

example: python -m twin traces convert AzureLLMInferenceTrace_conv.csv conv.parquet num_requests=1000
"""


def main(words: list[str]) -> int:
    """Converts; what is wrong with OUT is said before IN is read."""
    (source, target), options = parsed(words, "IN OUT")
    force = take(options, {"force": False})["force"]
    place = Path(target)
    if place.suffix not in (".parquet", ".csv"):
        raise UserError(f"{target}: its name must end in .parquet or .csv")
    if not place.parent.is_dir():
        raise UserError(f"{target}: there is no folder {place.parent}")
    if place.exists() and (not force or place.is_dir()):
        raise UserError(f"{target}: exists; {'name a file' if place.is_dir() else 'force=true replaces it'}")
    from traces.transforms.common import from_first_arrival
    from traces.write import write_trace

    with naming(source):
        trace = from_first_arrival(opened(source, options))
    with naming(target):
        write_trace(trace, place)
    print("\n".join(trace.report.lines()))
    print(f"{len(trace):,} requests written to {target}")
    return 0
