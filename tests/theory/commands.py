"""The commands of docs/theory.md, so that what is tested is what is printed there."""

import re
import shlex
from pathlib import Path

from twin.cli.main import main
from twin.results.load import Run, load_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory.md"
QUICK = ("output.figures=false", "output.report=false", "seed=1", "seeds=1", "warmup_requests=0")


def command(case: str) -> list[str]:
    """The words behind `python -m twin` of the first command below the heading that names the case."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {case}", 1)[1].split("\n## ", 1)[0]
    block = re.findall(r"^```bash\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)[0]
    words = shlex.split(block.replace("\\\n", " "))
    assert words[:3] == ["python", "-m", "twin"]
    return words[3:]


def run(case: str, folder: Path, *further: str, num_requests: int) -> Run:
    """What a shorter run of the case's command leaves."""
    folder = folder / str(len(list(folder.iterdir())))
    words = [*command(case), *QUICK, *further, f"trace.num_requests={num_requests}", f"hydra.run.dir={folder}"]
    assert main(words) == 0
    return load_run(folder)
