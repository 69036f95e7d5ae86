"""The pages in a real browser without a network, where TWIN_BROWSER names a Chromium. Their text is tested everywhere."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.results.records import queue
from tests.results.test_report import CONFIG
from tests.results.test_sweep_report import job
from twin.cli.main import main
from twin.results.report import report_html
from twin.results.summary import summarize
from twin.results.sweep_report import sweep_html

BROWSER = os.environ.get("TWIN_BROWSER")
pytestmark = pytest.mark.skipif(not BROWSER, reason="TWIN_BROWSER names no browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
    "--virtual-time-budget=10000",
)  # fmt: skip


def dom(page: Path, folder: Path, after: str = "") -> str:
    """The elements when the scripts have run; fails where one of them, or the page's policy, complained."""
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"{page.as_uri()}{after}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "ResizeObserver" not in line]
    assert not [line for line in said if "setting log level" not in line]
    return done.stdout


@pytest.mark.parametrize("which", ["run", "sweep"])
def test_every_figure_is_drawn(which: str, tmp_path: Path):
    made = queue(200)
    rows = [job(policy, rate) for policy in ("fcfs", "sjf") for rate in (4.0, 8.0, 16.0)]
    pages = {
        "run": lambda: report_html(CONFIG, summarize(made), made.requests, made.steps),
        "sweep": lambda: sweep_html("Rates", ["policy", "trace.rate"], rows),
    }
    page = tmp_path / "page.html"
    page.write_text(pages[which]())
    text = dom(page, tmp_path)
    assert text.count('<figure class="chart"') == text.count('data-drawn="yes"') == {"run": 3, "sweep": 1}[which]
    assert "cannot draw the figures (" not in text.partition("<footer>")[0]
    assert text.count('class="bk-Figure"') >= text.count('class="panel"') > 0
    assert text.count("<th><button") >= 7


def test_the_pool_view_shows_the_step_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("short.yaml").write_text(
        "cache: {num_gpu_blocks: 4, block_size: 4, enable_prefix_caching: false}\npolicy: {name: fcfs}\nrequests:\n"
        "  - {id: A, arrival_s: 0, prompt_tokens: 7, output_tokens: 4}\n"
        "  - {id: B, arrival_s: 0.5, prompt_tokens: 7, output_tokens: 3}\n"
    )
    assert main(["scenario", "short.yaml", "pool_view=pool.html"]) == 0
    text = dom(tmp_path / "pool.html", tmp_path, "#step=3")
    assert "Step 3 of 6, 2 to 3 s" in text and "preempted: gives back blocks 2, 3" in text
    assert "3 of 4 in use, 1 free; 3 empty slots in those in use" in text
    assert text.count('title="block ') == 4 and 'title="block 3: A; 1 of 4 slots filled"' in text
