"""Everything that has to be measured on a GPU, in one run of under six minutes.

    python bench/gpu.py [to=FOLDER] [--seconds 320]
    python bench/gpu.py to=FOLDER --dry-run-on-cpu

    build       kernels are compiled, many at a time
    checks      what the kernels and tiny models compute, against references; CUDA graphs against eager steps
    bandwidth   decode kernels (cuda, triton, torch) against a copy on the device; asked: 85 % of it from 1 GB of KV
    decode      steps of a Llama 3.1 8B with random weights against the memory roofline; asked: 75 % of it
    profile     step times over the grid of `engine profile`, to fit a latency model to
    swap        blocks to pinned host memory and back, by the lengths of their runs

Tables go to FOLDER (default: bench/results/gpu): a CSV file each, results.json with the device, driver, versions, clocks
and how each section ended, and summary.md. They are written anew after every section. A section that fails, hangs or
crashes takes none of the others with it. Smaller GPUs get fewer points, and a model of fewer layers; the notes say so.

Exit status: 0; 1 if something broke, hung or computed wrongly (the files are there all the same); 2 for a mistake in the
command, and where there is no CUDA device. `--dry-run-on-cpu` takes tiny sizes through the same code, to see that it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.on_gpu.budget import Budget  # noqa: E402
from bench.on_gpu.processes import run_section  # noqa: E402
from bench.on_gpu.run import Run  # noqa: E402
from bench.on_gpu.sections import sections  # noqa: E402
from bench.on_gpu.setup import on_cpu, on_gpu  # noqa: E402
from bench.on_gpu.summary import wrong  # noqa: E402
from bench.on_gpu.tables import JSON  # noqa: E402
from engine.errors import EngineError  # noqa: E402
from twin.cli import signals  # noqa: E402
from twin.results.atomic import OutputError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
SECONDS = 320.0  # of all sections; the rest of the six minutes is for starting, ending and writing
MEASURED, WRONG, REFUSED = 0, 1, 2


def main(words: list[str]) -> int:
    """Measures and writes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("to", nargs="?", metavar="to=FOLDER", help="for the tables; default: to=bench/results/gpu")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all sections; default: %(default)g")
    parser.add_argument("--dry-run-on-cpu", action="store_true", help="tiny sizes, no GPU: nothing of it is a measurement")
    chosen = parser.parse_args(words)
    budget = Budget(chosen.seconds)
    try:
        folder = folder_of(chosen.to, chosen.dry_run_on_cpu)
        if not chosen.seconds > 0:
            raise EngineError(f"--seconds {chosen.seconds:g}: must be above 0")
        if not chosen.dry_run_on_cpu:
            check_cuda()
        folder.mkdir(parents=True, exist_ok=True)
    except (EngineError, OSError) as error:
        return _complain(str(error))
    setup = on_cpu(folder) if chosen.dry_run_on_cpu else on_gpu(folder)
    run = Run(setup, sections(setup), budget, words, run_section)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # of all processes
    try:
        with signals.interruptible():
            run.run(tell=lambda line: print(line, flush=True))
    except OutputError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        print(f"bench/gpu.py: {signals.in_words()}; what was measured until then is in {folder}", file=sys.stderr)
        return signals.exit_status()
    print(f"written to {folder}")
    found = wrong(run.outcomes)
    for line in found:
        print(f"bench/gpu.py: {line}", file=sys.stderr)
    return WRONG if found else MEASURED


def folder_of(word: str | None, dry_run: bool) -> Path:
    """Raises `EngineError` for a word that is none, and for a folder that holds results already."""
    if word is not None and not word.startswith("to="):
        raise EngineError(f"{word}: unknown; there is to=FOLDER, see --help")
    name = (word or "to=").removeprefix("to=")
    if dry_run and (not name or Path(name).resolve().is_relative_to(RESULTS)):
        raise EngineError("--dry-run-on-cpu: give to=FOLDER, outside of bench/results, which is for measurements")
    folder = Path(name).resolve() if name else RESULTS / "gpu"
    if "," in str(folder):
        raise EngineError(f"to={folder}: the name must have no comma, which stands between names of files")
    if (folder / JSON).exists():
        raise EngineError(f"to={folder}: holds the results of an earlier run; name another folder, or move them away")
    return folder


def check_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise EngineError("this machine has no CUDA device that torch can use; --dry-run-on-cpu shows that the program runs")


def _complain(message: str) -> int:
    print(f"bench/gpu.py: {message}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
