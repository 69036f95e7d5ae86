"""One log in every form that is read."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.calibrate.requests.logs import made_log, write_csv
from twin.calibrate.requests.log import COLUMNS, STAMPS, RequestLog
from twin.calibrate.requests.reading import read_log
from twin.calibrate.requests.workload import Contents


def same(read: RequestLog, log: RequestLog, stamps: tuple[str, ...] = STAMPS) -> bool:
    lengths = np.array_equal(read.prompt_tokens, log.prompt_tokens) and np.array_equal(read.output_tokens, log.output_tokens)
    return lengths and all(
        np.allclose(getattr(read, name), getattr(log, name), atol=1e-6, equal_nan=True) for name in stamps
    )


@pytest.fixture
def log() -> RequestLog:
    made, _ = made_log(count=30)
    made.finish_s[3] = made.first_token_s[3] = np.nan
    return made


def frame(log: RequestLog) -> pd.DataFrame:
    return pd.DataFrame({name: getattr(log, name) for name in COLUMNS})


def test_csv(log: RequestLog, tmp_path: Path):
    read = read_log(write_csv(log, tmp_path / "log.csv"))
    assert same(read, log) and read.request_id == log.request_id and "1 of 30" in read.notes[0]


def test_parquet(log: RequestLog, tmp_path: Path):
    frame(log).to_parquet(tmp_path / "log.parquet")
    assert same(read_log(tmp_path / "log.parquet"), log)


def test_jsonl(log: RequestLog, tmp_path: Path):
    frame(log).to_json(tmp_path / "log.jsonl", orient="records", lines=True, double_precision=12)
    assert same(read_log(tmp_path / "log.jsonl"), log)


def test_rows_in_any_order_and_from_any_time(log: RequestLog, tmp_path: Path):
    table = frame(log).sample(frac=1, random_state=1)
    table[list(STAMPS)] += 1000.0
    table.to_csv(tmp_path / "log.csv", index=False)
    assert same(read_log(tmp_path / "log.csv"), log)


def test_other_names_and_milliseconds(log: RequestLog, tmp_path: Path):
    names = {"arrival_s": "t0", "first_token_s": "tf", "finish_s": "te", "prompt_tokens": "p", "output_tokens": "o"}
    path = write_csv(log, tmp_path / "log.csv", names, scale=1000.0)
    columns = "arrival_ms:t0,prompt_tokens:p,output_tokens:o,first_token_ms:tf,finish_ms:te"
    read = read_log(path, columns)
    assert same(read, log, ("arrival_s", "first_token_s", "finish_s")) and np.isnan(read.scheduled_s).all()


def test_durations_since_the_arrival(log: RequestLog, tmp_path: Path):
    table = frame(log)[["arrival_s", "prompt_tokens", "output_tokens"]].assign(wait=1e3 * log.ttft_s, whole=log.e2e_s)
    table.to_csv(tmp_path / "log.csv", index=False)
    columns = "arrival_s:arrival_s,prompt_tokens:prompt_tokens,output_tokens:output_tokens,ttft_ms:wait,e2e_s:whole"
    assert same(read_log(tmp_path / "log.csv", columns), log, ("arrival_s", "first_token_s", "finish_s"))


def test_dates(tmp_path: Path):
    lines = [f"2026-04-25 18:47:{i:02}.5,100,11,0.1,0.4" for i in range(20)]
    (tmp_path / "log.csv").write_text("\n".join(["when,p,o,a,b", *lines]))
    read = read_log(tmp_path / "log.csv", "arrival_s:when,prompt_tokens:p,output_tokens:o,ttft_s:a,e2e_s:b")
    assert read.arrival_s == pytest.approx(np.arange(20)) and read.ttft_s == pytest.approx(np.full(20, 0.1), abs=1e-6)


def test_metrics_of_vllm_and_their_two_clocks(log: RequestLog, tmp_path: Path):
    entries = [
        {
            "request_id": f"bench-{i}", "input_toks": int(log.prompt_tokens[i]), "output_toks": int(log.output_tokens[i]),
            "arrival_time": 1.7e9 + log.arrival_s[i], "queued_ts": 5e5 + log.arrival_s[i],
            "scheduled_ts": 5e5 + log.scheduled_s[i], "first_token_ts": 5e5 + log.first_token_s[i],
            "last_token_ts": 5e5 + log.finish_s[i],
        }
        for i in range(30) if np.isfinite(log.finish_s[i])
    ]  # fmt: skip
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, entries)))
    read = read_log(tmp_path / "requests.jsonl")
    stamped = log.stamped
    assert len(read) == 29 and read.e2e_s == pytest.approx(log.e2e_s[stamped], abs=1e-5)


def test_results_of_vllm_bench_serve(tmp_path: Path):
    result = {
        "backend": "vllm",
        "request_rate": 2.0,
        "input_lens": [100 + i for i in range(12)],
        "output_lens": [3] * 11 + [0],
        "start_times": [50.0 + i for i in range(12)],
        "ttfts": [0.25] * 11 + [0.0],
        "itls": [[0.03, 0.05]] * 11 + [[]],
        "errors": [""] * 11 + ["refused"],
    }
    (tmp_path / "result.json").write_text(json.dumps(result))
    read = read_log(tmp_path / "result.json")
    assert read.ttft_s[:11] == pytest.approx(np.full(11, 0.25)) and read.tpot_s[:11] == pytest.approx(np.full(11, 0.04))
    assert not read.stamped[11] and read.prompt_tokens[11] == 111


def test_prompts_with_the_same_beginning_share_the_keys_of_their_whole_blocks():
    prompts = [[1] * 40, [1] * 33, [1] * 16 + [2] * 16, [], [3] * 20]
    contents = Contents(prompts, 16)
    assert contents.shareable_tokens().tolist() == [32, 32, 16, 0, 0]
    first, second, third = (contents.block_keys(row, 16, 2) for row in (0, 1, 2))
    assert first == second and third[0] == first[0] and third[1] != first[1]
