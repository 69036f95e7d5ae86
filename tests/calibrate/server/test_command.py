"""What is taken from a server's own words, in a calibration."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.calibrate.requests.logs import TRUTH, blank_log, options_of, write_csv
from twin.calibrate.requests.basis import FittedTerms
from twin.calibrate.requests.reading import read_log
from twin.calibrate.requests.served import Served
from twin.calibrate.requests.system import served
from twin.calibrate.requests.workload import LogWorkload
from twin.cli.calibrate import main
from twin.core.limits import Limits, Rules

REAL = Path(__file__).parent / "vllm_0.32.txt"


def test_the_command_takes_it_all_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A log of 16 seats at most, served by what the start-up log says, but for the budget, which the user gives."""
    log = write_csv(replace(blank_log(40, 2.0), **stamps()), tmp_path / "log.csv")
    words = [f"requests={log}", f"served={REAL}", f"to={tmp_path / 'mine.yaml'}", "holdout=none", "terms=constant"]
    given = ["scheduler.max_num_batched_tokens=2048", "model.max_model_len=8192", "cache.num_gpu_blocks=2000"]
    assert main([*words, *given]) == 0
    said = capsys.readouterr().out
    assert "scheduler.max_num_batched_tokens=2048 as given; vllm_0.32.txt, line " in said
    assert "  scheduler.max_num_seqs=16  (vllm_0.32.txt, line 7: max_num_seqs)" in said
    assert "KV cache: 2,000 blocks (as given)" in said
    use = said.splitlines()[-1]
    assert "cache.num_gpu_blocks=2000 system=vllm-0.32" in use and "scheduler.async_scheduling=false" in use
    assert "scheduler.max_num_batched_tokens=2048" in use and "scheduler.max_num_seqs=16" in use
    assert "## The server" in (tmp_path / "mine.md").read_text()


def stamps() -> dict[str, np.ndarray]:
    """Of the true model with these limits."""
    blank = blank_log(40, 2.0)
    limits = Limits(2000, 32, max_num_seqs=16, max_num_batched_tokens=2048, enable_prefix_caching=True)
    played = Served(LogWorkload(blank, 32), limits, Rules()).play(FittedTerms().latency(TRUTH))
    return {"scheduled_s": played.scheduled_s, "first_token_s": played.first_s, "finish_s": played.last_s}


def test_the_rules_of_the_preset_count_in_a_calibration(tmp_path: Path):
    """vLLM 0.11 admits for a first chunk alone, and computes a token more than a request may have."""
    log = read_log(write_csv(replace(blank_log(40, 2.0), **stamps()), tmp_path / "log.csv"))
    options = options_of(tmp_path / "log.csv", tmp_path / "mine.yaml", "system=vllm-0.11", "cache.num_gpu_blocks=2000")
    rules = served(options, log, None)[0].rules
    assert not rules.async_scheduling and not rules.scheduler_reserve_full_isl and not rules.foresee_last_token
    assert rules.victim_skips_next and not rules.blank_blocks_first
