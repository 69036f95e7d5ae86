"""The tests of scheduling, with their hand-made right values, once more: every batch computed by a real model.

All acceptance cases of the layer "both" that speak of steps are among them (cow-*, swap-*, pc-*, bud-*, pri-*, live-*, ...).
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.engine.on_the_engine import COUNTS_FILE

ROOT = Path(__file__).resolve().parents[2]
GOES_THROUGH = re.compile(r"scenarios import .*played|sim\.scenario import .*play|core\.drive import")
LEFT_OUT = ("tests/policies/test_parts_together.py",)  # some minutes of all pairs of parts, which the simulator does alone


def files() -> list[str]:
    """Test files that go through `play` or `Drive`."""
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if GOES_THROUGH.search(path.read_text("utf-8"))]
    names = sorted(str(path.relative_to(ROOT)) for path in found if path != Path(__file__).resolve())
    return [name for name in names if name not in LEFT_OUT]


def test_they_pass_on_a_real_model_too(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.engine.on_the_engine", "-p", "no:cacheprovider", *files()]
    environment = os.environ | {COUNTS_FILE: str(counts), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    told = ast.literal_eval(counts.read_text())
    assert told["scenarios"] >= 500 and told["steps"] >= 20_000 and told["sequences"] >= 3_000, told
