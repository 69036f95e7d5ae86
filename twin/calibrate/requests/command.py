"""`twin calibrate requests=LOG`: fits a latency model to a request log, writes its file and a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.calibrate.requests.basis import PLACE, Basis, FittedTerms, KernelTerms
from twin.calibrate.requests.doubt import doubt
from twin.calibrate.requests.evidence import Evidence
from twin.calibrate.requests.fit import Calibration, calibrate, fitted_rows, foretold, halves
from twin.calibrate.requests.latency_file import content_of
from twin.calibrate.requests.log import RequestLog
from twin.calibrate.requests.prior import Guess, Prior, beside_kernels, from_log, from_sheet
from twin.calibrate.requests.reading import read_log
from twin.calibrate.requests.report import Account, doubts, markdown, summary
from twin.calibrate.requests.search import Problem
from twin.calibrate.requests.system import Hardware, hardware, served
from twin.calibrate.scrapes.alignment import aligned
from twin.calibrate.scrapes.compare import compare
from twin.calibrate.scrapes.reading import read_scrapes

if TYPE_CHECKING:
    from twin.calibrate.options import Options

OWN = {  # option: (its default as text, what it is)
    "requests": (
        "",
        "the log: CSV, Parquet or JSONL (docs/calibrate_requests.md), vLLM's metrics, or vllm bench serve's JSON",
    ),
    "to": ("calibrated.yaml", "the latency file to write; the report goes beside it, as .md"),
    "columns": (
        "",
        "names of the log's columns, arrival_s:t0,finish_ms:end,... (ttft_s and e2e_s: since the arrival)",
    ),
    "prompts": ("", "JSONL with the token ids of each prompt, in the log's order, where prefixes are shared"),
    "tables": ("", "folder of measured kernels (dense.csv, per_sequence.csv, attention.csv) to build on"),
    "served": (
        "",
        "the server's start-up log, or a scrape of its /metrics: system and limits are taken from it (yours count before)",
    ),
    "metrics": (
        "",
        "scrapes of its /metrics over that time: a file, a folder, or a Prometheus range query's JSON; the simulator's "
        "rates, cache use, preemptions and histograms are compared with theirs",
    ),
    "terms": ("all", "terms to fit, constant,mixed say; the others stay at what is known of them beforehand"),
    "holdout": ("half", "half: errors on the second half by a fit to the first; none: no held-out errors"),
    "cold": ("5", "so many first requests load the system and are not fitted: they warm the server up"),
}
SECTIONS = (
    "model",
    "gpu",
    "parallel",
    "scheduler",
    "cache",
    "system",
    "policy",
    "seed",
)  # of the configuration, that it reads
FULL_BATCH = 0.98  # of the seats: beyond what was seen a batch is extrapolated


def main(options: Options) -> int:
    """Reads, calibrates, writes; the exit status. Raises ValueError, in one line, for bad input."""
    own = options.own
    if own["holdout"] not in ("half", "none"):
        raise ValueError(f"holdout={own['holdout']}: must be half or none")
    if not own["cold"].isdecimal():
        raise ValueError(f"cold={own['cold']}: must be a number of requests, 0 or more")
    if not Path(own["to"]).parent.is_dir():
        raise ValueError(f"to={own['to']}: no such folder: {Path(own['to']).parent}")
    log = read_log(Path(own["requests"]), own["columns"], Path(own["prompts"]) if own["prompts"] else None)
    if server := options.server.told(options.values):
        print("\n".join(["from the server's own words:", *(f"  {line}" for line in server), ""]), flush=True)
    account, content = carry_out(options, log)
    print("\n".join(summary(account)))
    written = write(Path(own["to"]), content, account)
    print(f"written to {' and '.join(map(str, written))}; use it with {use(account, written[0], options)}", flush=True)
    return 0


def use(account: Account, path: Path, options: Options) -> str:
    """The options that bring the calibration into a run."""
    calibration, tables = account.calibration, options.own["tables"]
    pool = f" cache.num_gpu_blocks={calibration.pool.blocks}"
    pool += "".join(f" {word}" for word in limits(options))
    words = f"latency=fitted latency.path={path}{pool}"
    if tables:
        scale, constant, mixed, *rest = calibration.theta
        if scale == 1 and not any(rest):
            exact = f"latency=table latency.path={tables} latency.host_s={constant:.4g} latency.mixed_s={mixed:.4g}{pool}"
            words += f", or exactly as fitted with {exact}"
    return words


def limits(options: Options) -> Iterator[str]:
    """The options by which the server was described, but for the pool's size: a run must have them too."""
    yield from (word for word in options.server.words if "." not in word.partition("=")[0])  # system
    for key in sorted(options.given):
        section, _, name = key.partition(".")
        if section in ("model", "parallel", "scheduler", "cache") and name and key != "cache.num_gpu_blocks":
            value = options.values[section][name]
            yield f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def carry_out(options: Options, log: RequestLog) -> tuple[Account, dict[str, Any]]:
    """The calibration, what is to be told of it, and the latency file's content."""
    own, machine = options.own, hardware(options)
    scrapes = read_scrapes(Path(own["metrics"])) if own["metrics"] else None
    alignment = None if scrapes is None else aligned(log, scrapes)
    basis, prior = basis_and_prior(own, machine, log)
    system, blocks = served(options, log, machine)
    rows = fitted_rows(log, int(own["cold"]))
    problem = Problem(system, basis, prior, Evidence(log, rows))
    held_out, near = None, None
    if own["holdout"] == "half":
        first, second = halves(rows)
        from_half = calibrate(problem, first, blocks)
        held_out, near = foretold(from_half, second), from_half.pool
    calibration = calibrate(problem, rows, blocks, near)
    told = foretold(calibration, rows)
    _, steps = calibration.play_steps()
    about = {
        **({"model": machine.model.name, "gpu": machine.gpu.name} if machine else {}),
        "source": f"twin calibrate requests={Path(log.source).name}, {len(rows)} requests; {prior.source}",
        "error": {"fitted": told.errors.flat()} | ({"held_out": held_out.errors.flat()} if held_out else {}),
    }
    content = content_of(basis, calibration.theta, steps.features, about)
    unknown = doubt(calibration.problem, calibration.theta, int(options.values["seed"]))
    notes = [*log.notes, *doubts(unknown, basis.terms, prior.free), *extrapolations(calibration, steps.features)]
    if content.off:
        notes.append(f"the file's terms give the kernel tables' steps to {100 * content.off:.2f} % (root mean square)")
    if held_out and near and near.blocks != calibration.pool.blocks:
        notes.append(f"the first half alone gives a pool of {near.blocks:,} blocks")
    scraped = None
    if scrapes is not None and alignment is not None:
        outcome = calibration.problem.served.outcome(basis.latency(calibration.theta))
        scraped = compare(scrapes, log, alignment, outcome)
        notes += scraped.notes
    told_of = f"{log.source}: {len(log):,} requests, {len(rows):,} fitted, {np.nanmax(log.finish_s):,.1f} s"
    seen = content.values["range"]
    server = tuple(options.server.told(options.values))
    account = Account(told_of, calibration, unknown, told, held_out, seen, notes, options.command, scraped, server)
    return account, content.values


def basis_and_prior(own: Mapping[str, str], machine: Hardware | None, log: RequestLog) -> tuple[Basis, Prior]:
    """What a step is made of, and what is known of it beforehand."""
    basis: Basis
    guesses: dict[str, Guess]
    if own["tables"]:
        from twin.latency.table_files import read_kernel_tables

        if machine is None:
            raise ValueError(f"tables={own['tables']}: whose? give model=... and gpu=... too")
        basis, guesses = KernelTerms(read_kernel_tables(own["tables"], machine.model.layers)), beside_kernels(*of(machine))
        source = "kernel tables, and what the host and the links add by experience"
    elif machine is None:
        basis, guesses, source = FittedTerms(), from_log(log), "orders of magnitude from the log itself"
    else:
        basis, guesses, source = FittedTerms(), from_sheet(*of(machine)), "model shape and data sheet"
    free = basis.terms if own["terms"] == "all" else tuple(name.strip() for name in own["terms"].split(","))
    if unknown := [name for name in free if name not in basis.terms]:
        raise ValueError(f"terms={own['terms']}: no term {', '.join(unknown)}; there are {', '.join(basis.terms)}")
    return basis, Prior.of(guesses, basis.terms, free, source)


def of(machine: Hardware) -> tuple[Any, Any, int]:
    return machine.model, machine.gpu, machine.gpus


def extrapolations(calibration: Calibration, features: np.ndarray) -> list[str]:
    """Where the fit is no guide: batches that the log did not have."""
    decodes = features[features[:, PLACE["prefill_tokens"]] == 0][:, PLACE["sequences"]]
    if not len(decodes):
        return ["no step of the log is without a prompt: what decodes alone take is not known"]
    seats, most = calibration.problem.served.limits.max_num_seqs, int(decodes.max())
    notes = []
    if most < FULL_BATCH * seats:
        notes.append(
            f"batches were at most {most} of {seats} seats: within that the fit is good, beyond it is a guess, and a trial "
            "of one was wrong by 17 %"
        )
    low, high = np.quantile(decodes, (0.1, 0.9))
    if low > 0.8 * high:
        notes.append(f"most batches were of {low:.0f} to {high:.0f} sequences: smaller ones rest on the prior")
    return notes


def write(to: Path, content: dict[str, Any], account: Account) -> tuple[Path, Path]:
    """Both files, each whole or not at all."""
    import yaml

    from twin.results.atomic import writing

    report = to.with_suffix(".md")
    if report == to:
        raise ValueError(f"to={to}: must not end in .md, the report's name; give to=NAME.yaml")
    text = "# Made by twin calibrate; the names are explained in twin/latency/fitted.py. Errors in percent.\n"
    with writing(to) as handle:
        handle.write((text + yaml.safe_dump(content, sort_keys=False, width=120)).encode())
    with writing(report) as handle:
        handle.write(markdown(account).encode())
    return to, report
