"""The simulator against end-to-end figures that others measured and nothing here was fitted to.

    python bench/end_to_end.py SHARED_DIR [--write bench/results/end_to_end.md]

Closed loops of one length: `profiles/aiconfigurator/silicon_sample.csv` (mean time to first token and per output token by
concurrency). Published runs of vLLM: `reference/published_gpustack.csv` (the same, and throughput). Played with the limits
that the server has by default (bench/end_to_end_points.py), and with step times

    shipped     from the file in conf/latency/fitted/ that `latency=fitted` takes for this model, GPU and number of GPUs
    made        where none is shipped: from one made of the same tables by the same code (bench/fit_default_latency.py), with
                the host terms of the shipped ones; so is judged what `twin calibrate profile=` gives for such a model

How the clients of a closed loop began is not told, and the time to the first token hangs on it. Both ends are played:

    in step     all at once, so that prompts come in waves as long as nothing scatters them
    spread      one after the other, evenly over the time that a request takes

Requests of the first wave are not counted there. A point is left out, and counted with the reason, where kernels of its
precision or device are not among the tables, the model is not dense, or its figures are not those of plain serving.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from end_to_end_points import Point, read_gpustack, read_silicon

from twin.cli.compose import compose
from twin.cli.job import build
from twin.memory import gpu_from, model_shape, plan_memory
from twin.sim import Simulation

WAVES = 8  # requests a client of a closed loop; how many the runs had is not known
IN_STEP, SPREAD, ONCE = "in step", "spread", "as told"
METRICS = ("ttft", "tpot", "throughput")
TITLES = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}


class Figures(NamedTuple):
    """What a run shows: seconds, seconds, output tokens a second; nan where it was not told."""

    ttft: float
    tpot: float
    throughput: float


class Result(NamedTuple):
    """Signed relative errors, predicted / measured - 1."""

    point: Point
    start: str
    errors: Figures


def measured(point: Point) -> Figures:
    """Of a closed loop of one length throughput follows (Little's law): seats / time in the system = requests a second."""
    throughput = point.throughput
    if throughput is None and point.in_flight is not None:
        throughput = point.in_flight * point.output / (point.ttft_s + (point.output - 1) * point.tpot_s)
    return Figures(point.ttft_s, point.tpot_s, float("nan") if throughput is None else throughput)


def words_of(point: Point, latency: Iterable[str]) -> list[str]:
    """The options of `twin run` that play the point."""
    lengths = "constant({})" if point.one_length else "exponential({})"
    count = point.requests or WAVES * (point.in_flight or 1)
    together = point.in_flight or count
    return [
        *point.model_words, f"gpu={point.gpu}", f"parallel.tensor_parallel_size={point.gpus}", *latency, "trace=synthetic",
        f"trace.arrivals=closed({together},think=0)", f"trace.num_requests={count}",
        f"trace.prompt_tokens={lengths.format(point.prompt)}", f"trace.output_tokens={lengths.format(point.output)}",
        f"scheduler.max_num_seqs={point.seats}", f"scheduler.max_num_batched_tokens={point.budget}", *point.more,
        "cache.enable_prefix_caching=false",  # no two prompts have anything in common
        *([f"cache.num_gpu_blocks={blocks_for_seats(point)}"] if point.memory_seats else []),
    ]  # fmt: skip


def shape_of(point: Point) -> tuple[Any, Any]:
    values = compose([*point.model_words, f"gpu={point.gpu}"]).values
    return model_shape(values["model"]), gpu_from(values["gpu"])


def blocks_for_seats(point: Point) -> int:
    """The pool that the memory plan leaves a server with fewer seats."""
    assert point.memory_seats is not None
    limits = {"max_num_batched_tokens": point.budget, "max_num_seqs": point.memory_seats}
    return plan_memory(*shape_of(point), tensor_parallel_size=point.gpus, **limits).num_blocks


def results_of(point: Point, latency: Iterable[str]) -> list[Result]:
    """One for each way in which the clients may have begun."""
    job = build(compose(words_of(point, latency)), "")
    played = job.simulation.run().requests
    if not point.one_length or point.in_flight is None:
        return [Result(point, ONCE, errors(point, played, 0))]
    found = [Result(point, IN_STEP, errors(point, played, point.in_flight))]
    arrival_s = job.trace.arrival_s.copy()
    took_s = np.mean(np.asarray(played["finish_s"], float) - np.asarray(played["arrival_s"], float))
    arrival_s[: point.in_flight] = np.arange(point.in_flight) * took_s / point.in_flight
    spread = Simulation(job.fresh_setup(), replace(job.trace, arrival_s=arrival_s), False)
    return [*found, Result(point, SPREAD, errors(point, spread.run().requests, point.in_flight))]


def errors(point: Point, requests: dict[str, Any], skip: int) -> Figures:
    """Of the simulated run, but for its first `skip` requests."""
    columns = (
        np.asarray(requests[name], float)[skip:] for name in ("arrival_s", "first_token_s", "finish_s", "output_tokens")
    )
    arrival_s, first_s, last_s, tokens = columns
    assert np.isfinite(last_s).all(), f"{point.name}: not all requests were served"
    several = tokens > 1
    ttft_s, tpot_s = (first_s - arrival_s).mean(), ((last_s - first_s)[several] / (tokens[several] - 1)).mean()
    if point.throughput is None:  # as measured() has it
        assert point.in_flight is not None
        throughput = point.in_flight * point.output / (ttft_s + (point.output - 1) * tpot_s)
    else:
        throughput = tokens.sum() / (last_s.max() - arrival_s.min())
    pairs = zip((ttft_s, tpot_s, throughput), measured(point), strict=True)
    return Figures(*(float(told / seen - 1) for told, seen in pairs))


class Calibrations:
    """The `latency=` options for a point: the shipped file, or one made from the same tables."""

    def __init__(self, profiles: Path, folder: Path) -> None:
        from fit_default_latency import Shipped

        self.shipped, self.folder = Shipped(profiles), folder

    def of(self, point: Point) -> list[str]:
        if point.shipped:
            return ["latency=fitted"]
        path = self.folder / f"{point.model}_{point.gpu}_tp{point.gpus}.yaml"
        if not path.is_file():
            path.write_text(self.made(point))
        return ["latency=fitted", f"latency.path={path}"]

    def made(self, point: Point) -> str:
        from twin.calibrate.readers import Wanted
        from twin.calibrate.save import latency_file

        target = Wanted(*shape_of(point), point.gpus, True, True)
        tables = self.shipped.profiles / "aiconfigurator" / "data" / point.tables
        return latency_file(self.shipped.kernels(tables, target, self.shipped.eight_b(), "made for bench/end_to_end.py", {}))


def table(results: list[Result]) -> list[str]:
    """A row a group of points: of each metric bias, mean and 90th percentile of the size of the error, in percent."""
    head = " | ".join(TITLES[metric] for metric in METRICS)
    lines = [f"| calibration | served | points | clients | {head} |", "|---|---|---:|---|---:|---:|---:|"]
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for each in results:
        groups.setdefault((each.point.calibration, each.point.group, each.start), []).append(each)
    for (calibration, group, start), some in groups.items():
        cells = []
        for metric in METRICS:
            signed = 100 * np.array([getattr(each.errors, metric) for each in some])
            size = np.abs(signed)
            cells.append(f"{signed.mean():+.1f}, {size.mean():.1f}, {np.quantile(size, 0.9):.1f}")
        lines.append(f"| {calibration} | {group} | {len(some)} | {start} | {' | '.join(cells)} |")
    return lines


def rows(results: list[Result]) -> list[str]:
    """A row a point, errors in percent; the measured values stay where they are from."""
    lines = ["| point | clients | TTFT | TPOT | throughput |", "|---|---|---:|---:|---:|"]
    for point, start, found in results:
        lines.append(f"| {point.name} | {start} | {' | '.join(f'{100 * error:+.1f}' for error in found)} |")
    return lines


def points_of(shared: Path) -> tuple[list[Point], Counter[str]]:
    """All that can be played, and how many were left out for which reason."""
    points, left_out = [], Counter[str]()
    for read, path in (
        (read_silicon, shared / "profiles" / "aiconfigurator" / "silicon_sample.csv"),
        (read_gpustack, shared / "reference" / "published_gpustack.csv"),
    ):
        found, reasons = read(path)
        points += found
        left_out.update(reasons)
    return points, left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with profiles/ and reference/")
    parser.add_argument("--write", type=Path, help="a Markdown file for the tables")
    options = parser.parse_args()
    points, left_out = points_of(options.shared)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        calibrations = Calibrations(options.shared / "profiles", Path(folder))
        for point in points:
            results += results_of(point, calibrations.of(point))
            print("\n".join(rows(results)[-1 if results[-1].start == ONCE else -2 :]), flush=True)
    text = "\n".join([
        "Bias, mean of the size and its 90th percentile, percent; above 0: simulated more than measured.", "",
        *table(results), "", *(f"- {count:,} left out: {why}" for why, count in left_out.most_common()), "",
    ])  # fmt: skip
    print(text)
    if options.write:
        head = ["# The simulator against end-to-end figures of others", "", "Made by `python bench/end_to_end.py`.", ""]
        options.write.write_text("\n".join([*head, text]))


if __name__ == "__main__":
    main()
