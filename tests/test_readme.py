"""The README's two set-up commands are the ones that `.ci/run` executes, and there is no second copy of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI_RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def extracted(name: str) -> str:
    """What `.ci/run` gets for a name: the same program, run in the same way."""
    script = ROOT / ".ci" / "readme_commands.py"
    done = subprocess.run([sys.executable, script, ROOT / "README.md", name], capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def bash_blocks(section: str) -> list[str]:
    """The bodies of the bash fences under a heading of the second level, as a reader sees them."""
    body = README.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```bash\n(.*?)\n```$", body, re.MULTILINE | re.DOTALL)


def test_readme_prints_exactly_the_two_commands_that_ci_executes():
    assert bash_blocks("Install and run") == [extracted("run"), extracted("test")]


def test_commands_are_of_one_line_and_do_the_main_job_and_the_tests():
    run, test = extracted("run"), extracted("test")
    assert "\n" not in run + test
    assert "python -m twin run policy=fcfs trace=chat" in run
    assert "python -m pytest" in test


def test_ci_executes_what_it_extracts_and_holds_no_copy():
    assert 'for name in run test; do\n    command="$(python .ci/readme_commands.py README.md "$name")"' in CI_RUN
    assert 'bash -euo pipefail -c "$command"' in CI_RUN
    for word in ("install -e", "pytest", "twin run", "engine run"):
        assert word not in CI_RUN
    installs = [line for line in CI_RUN.splitlines() if "pip install" in line]
    assert installs == ['python -m pip install --quiet "torch==2.13.0"']  # which build of it is for whoever runs this to say
