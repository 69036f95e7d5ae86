"""Speed and memory of the generators: a million requests of each.

    python bench/generators.py [--requests 1000000] [--traces chat code ...]

Each is made in a process of its own, so that its peak memory is its own; beside it the bytes of its columns.
"""

import argparse
import multiprocessing
import resource
import time

TRACES = ("chat", "code", "summarize", "long_context", "batch", "agent", "synthetic")


def measure(name: str, requests: int) -> tuple[float, float, float]:
    """Seconds, peak MiB of the process, MiB of the columns."""
    from traces import open_trace

    open_trace(name, num_requests=10)  # imports and tables do not count
    started = time.perf_counter()
    trace = open_trace(name, num_requests=requests)
    seconds = time.perf_counter() - started
    columns = sum(getattr(values, "nbytes", 8 * len(values)) for values in trace.columns().values())
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, columns / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--traces", nargs="+", default=TRACES, choices=TRACES)
    arguments = parser.parse_args()
    print(f"{arguments.requests:,} requests of each\n\n| trace | s | peak MiB | columns MiB |\n|---|--:|--:|--:|")
    fresh = multiprocessing.get_context("spawn")
    for name in arguments.traces:
        with fresh.Pool(1) as pool:
            seconds, peak, columns = pool.apply(measure, (name, arguments.requests))
        print(f"| {name} | {seconds:.3g} | {peak:,.0f} | {columns:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
