"""A simulator beside scrapes of a run that it made itself, and of one that it did not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="reads scrapes; pip install prometheus-client")

from tests.calibrate.requests.logs import blank_log, options_of, served_by, write_csv
from tests.calibrate.scrapes.made import SEATS, Run, Slower, real_run, write_scrapes
from twin.calibrate.requests import command
from twin.calibrate.scrapes.alignment import aligned
from twin.calibrate.scrapes.compare import COUNT, Comparison, compare
from twin.calibrate.scrapes.reading import read_scrapes
from twin.cli.calibrate import main

START_S = 1_790_000_000.25
TIMES = np.arange(-1.5, 40.0, 1.3)  # of the run; its last token comes before the last of them


@pytest.fixture(scope="module")
def run() -> Run:
    made = real_run()
    assert np.nanmax(made.log.finish_s) < TIMES[-1] and made.outcome.counters["preemptions"] > 3
    return made


@pytest.fixture(scope="module")
def scraped(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scrapes(run, tmp_path_factory.mktemp("scrapes") / "scrapes.txt", TIMES, START_S)


def compared(run: Run, scraped: Path, factor: float = 1.0) -> Comparison:
    scrapes = read_scrapes(scraped)
    outcome = served_by(run.log, run.outcome.num_blocks, SEATS).outcome(Slower(factor))
    return compare(scrapes, run.log, replace(aligned(run.log, scrapes), start_s=START_S), outcome)


def test_a_run_beside_its_own_scrapes_has_no_error(run: Run, scraped: Path):
    comparison = compared(run, scraped)
    assert len(comparison.figures) == 3 + 2 + 2 + 1 + 5 * 4 and len(comparison.shares) == 5
    for figure in comparison.figures:
        if figure.name.startswith("KV cache"):  # the scrapes here show a row of equal steps at its end alone
            assert abs(figure.error) < 3, figure
        elif np.isfinite(figure.error):
            assert figure.error == pytest.approx(0, abs=1e-4), figure
        else:
            assert figure.scraped == figure.simulated == 0, figure
    for shares in comparison.shares:
        assert np.allclose(shares.scraped, shares.simulated)
        assert shares.scraped.sum() == pytest.approx(100)


def test_the_scraped_figures_are_those_of_the_log(run: Run, scraped: Path):
    figures = {figure.name: figure.scraped for figure in compared(run, scraped).figures}
    log, seconds = run.log, TIMES[-1] - TIMES[0]
    assert figures["requests /s"] == pytest.approx(len(log) / seconds)
    assert figures["prompt tokens /s"] == pytest.approx(log.prompt_tokens.sum() / seconds)
    assert figures["generated tokens /s"] == pytest.approx(log.output_tokens.sum() / seconds)
    assert figures["preemptions"] == run.outcome.counters["preemptions"]
    assert figures["time to the first token, mean, s"] == pytest.approx(log.ttft_s.mean())
    assert figures["whole request, mean, s"] == pytest.approx(log.e2e_s.mean())


def test_a_slower_simulator_is_told_by_the_sign(run: Run, scraped: Path):
    figures = {figure.name: figure for figure in compared(run, scraped, 1.2).figures}
    assert figures["between two tokens, mean, s"].error == pytest.approx(20, abs=6)
    assert figures["whole request, mean, s"].error > 20 and figures["running, mean of the scrapes"].error > 5
    assert figures["preemptions"].told_in == COUNT
    between = next(shares for shares in compared(run, scraped, 1.2).shares if shares.name == "between two tokens")
    assert between.apart[0] < 0  # less of it below the edge where they are furthest apart


def test_a_log_on_another_clock_is_laid_where_the_counters_fit(run: Run, scraped: Path):
    found = aligned(run.log, read_scrapes(scraped))
    assert found.start_s == pytest.approx(START_S, abs=0.1) and found.apart < 0.002


def test_a_log_on_the_clock_of_the_day_needs_no_such_thing(run: Run, scraped: Path):
    found = aligned(replace(run.log, start_s=START_S), read_scrapes(scraped))
    assert found.start_s == START_S and found.apart < 1e-6


def test_scrapes_of_another_run_are_refused(run: Run, scraped: Path):
    other = replace(run.log, prompt_tokens=run.log.prompt_tokens * 2)
    with pytest.raises(ValueError, match="not of this log: .* differ by") as raised:
        aligned(other, read_scrapes(scraped))
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="not of this log"):
        aligned(replace(run.log, start_s=START_S + 3600), read_scrapes(scraped))


def test_scrapes_that_begin_late_are_compared_from_there_on(run: Run, tmp_path: Path):
    half = write_scrapes(run, tmp_path / "half.txt", TIMES[TIMES > 4], START_S)
    comparison = compared(run, half)
    rate = next(figure for figure in comparison.figures if figure.name == "requests /s")
    assert rate.error == pytest.approx(0, abs=1e-9) and rate.scraped * comparison.seconds < len(run.log)
    assert "what came before is not compared" in comparison.notes[0]


def test_the_whole_command(run: Run, scraped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The pool, block size and prefix caching come from the scrapes; the rest is given."""
    log = write_csv(run.log, tmp_path / "log.csv")
    words = ["scheduler.max_num_batched_tokens=2048", f"scheduler.max_num_seqs={SEATS}", "holdout=none", "terms=constant"]
    assert main([f"requests={log}", f"metrics={scraped}", f"to={tmp_path / 'mine.yaml'}", *words]) == 0
    said = capsys.readouterr().out
    assert "cache.num_gpu_blocks=420  (scrapes.txt: vllm:cache_config_info: num_gpu_blocks=421, less the null block)" in said
    assert "KV cache: 420 blocks (as given)" in said
    assert "system: not said (version); the rules of the default stay, unless you give it" in said
    assert "generated tokens /s" in said and "time to the first token, mean, s" in said
    assert "cache.block_size=16" in said.splitlines()[-1]
    report = (tmp_path / "mine.md").read_text()
    assert "## Against the scrapes" in report and "### Between two tokens" in report and "## The server" in report


def test_bad_scrapes_are_told_before_the_work(run: Run, tmp_path: Path):
    log = write_csv(run.log, tmp_path / "log.csv")
    (tmp_path / "scrapes.txt").write_text("# nothing\n")
    with pytest.raises(ValueError, match="no scrape of a vLLM's /metrics"):
        command.main(options_of(log, tmp_path / "mine.yaml", f"metrics={tmp_path / 'scrapes.txt'}"))
    assert not (tmp_path / "mine.yaml").exists()


def test_prompts_that_share_a_prefix(tmp_path: Path):
    """Two prompts of 40 tokens, the same: the second takes 2 blocks of 16 from the cache, for its last token is computed."""
    blank = blank_log(2, 0.01)
    log = replace(blank, prompt_tokens=np.array([40, 40]), output_tokens=np.array([4, 4]), prompt_ids=[list(range(40))] * 2)
    outcome = served_by(log, 100, SEATS).outcome(Slower())
    stamps = {name: np.array(outcome.requests[name], float) for name in ("first_token_s", "finish_s")}
    log = replace(log, **stamps, start_s=START_S)
    last_s = float(log.finish_s[-1]) + 1
    for hits, asked in (("prompt_tokens_cached", "prompt_tokens"), ("prefix_cache_hits", "prefix_cache_queries")):
        counted = {"prompt_tokens": 80, asked: 80, hits: 30}  # the server found less
        begun = "".join(f"vllm:{name}_total 0\n" for name in counted)
        ended = "".join(f"vllm:{name}_total {value}\n" for name, value in counted.items())
        (tmp_path / "scrapes.txt").write_text(f"{START_S - 1}\n{begun}{START_S + last_s}\n{ended}")
        scrapes = read_scrapes(tmp_path / "scrapes.txt")
        figures = {figure.name: figure for figure in compare(scrapes, log, aligned(log, scrapes), outcome).figures}
        cached = figures["prompt tokens from the cache, %"]
        assert (cached.scraped, cached.simulated, cached.error) == pytest.approx((37.5, 40, 2.5))
