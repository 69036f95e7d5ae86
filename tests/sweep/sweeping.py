"""A small sweep from the command line, and policies that go wrong in it."""

import json
from pathlib import Path

import pyarrow.parquet

from tests.cli.commands import SMALL
from twin.cli.main import main

RANDOM = ("trace.arrivals=poisson(0.5)", "trace.output_tokens=geometric(3)")
IN_PROCESS = "hydra/launcher=basic"

POLICIES = {
    "failing": '''
class Failing(Policy):
    """Fails in the middle."""

    def order(self, request, view):
        if view.now > 50:
            raise RuntimeError("boom")
        return request.arrival_s
''',
    "stopped": '''
class Stopped(Policy):
    """As if Ctrl-C were pressed in the middle."""

    def order(self, request, view):
        if view.now > 50 and not Path("go_on").exists():
            raise KeyboardInterrupt
        return request.arrival_s
''',
    "dies_once": '''
class DiesOnce(Policy):
    """Its process is killed in the middle, the first time."""

    def order(self, request, view):
        if view.now > 50 and not Path("has_died").exists():
            Path("has_died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return request.arrival_s
''',
    "deadly": '''
class Deadly(Policy):
    """Its process is killed in the middle, each time."""

    def order(self, request, view):
        if view.now > 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return request.arrival_s
''',
}


def write_policies(folder: Path) -> None:
    """All of them into ./policies."""
    (folder / "policies").mkdir()
    for name, text in POLICIES.items():
        head = "import os\nimport signal\nfrom pathlib import Path\n\nfrom twin.policy import Policy\n\n"
        (folder / "policies" / f"{name}.py").write_text(head + text)


def sweep(*words: str, folder: str = "out") -> tuple[int, list[dict]]:
    """Exit status and the rows of sweep.parquet."""
    status = main(["run", "-m", *SMALL, *words, f"hydra.sweep.dir={folder}"])
    table = Path(folder, "sweep.parquet")
    return status, pyarrow.parquet.read_table(table).to_pylist() if table.exists() else []


def statuses(rows: list[dict], key: str = "policy") -> dict:
    """What became of each job, by a swept option."""
    return {row[key]: row["status"] for row in rows}


def stamps(folder: str = "out") -> dict[str, int]:
    """When each job's summary was written: a job that is not run again keeps it."""
    return {path.parent.name: path.stat().st_mtime_ns for path in Path(folder).rglob("summary.json")}


def summary(*parts: str) -> dict:
    return json.loads(Path(*parts, "summary.json").read_text())
