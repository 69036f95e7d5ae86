"""Scrapes in every form that is read, their times, and mistakes."""

import builtins
import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="reads scrapes; pip install prometheus-client")

from twin.calibrate.scrapes.exposition import read_exposition
from twin.calibrate.scrapes.reading import read_scrapes
from twin.calibrate.scrapes.series import Histogram, Scrapes, increase

REAL = Path(__file__).parent / "vllm_0.32.prom"  # two scrapes of a vLLM 0.32, less what is not read


def scrape(tokens: float, running: int = 1) -> str:
    return f'vllm:prompt_tokens_total{{engine="0"}} {tokens}\nvllm:num_requests_running{{engine="0"}} {running}\n'


def buckets(label: str) -> str:
    """Two scrapes of a histogram of one bucket, with this label."""
    name = "vllm:time_to_first_token_seconds"
    return "".join(f"{at_s}\n{name}_bucket{{{label}}} {at_s}\n{name}_sum {at_s}\n" for at_s in (1790000000, 1790000005))


def read(path: Path, text: str) -> Scrapes:
    path.write_text(text)
    return read_scrapes(path)


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ValueError) as raised:
        read_scrapes(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("zone", ["Z", "", "+00:00"])
def test_a_time_above_each_scrape(tmp_path: Path, zone: str):
    """Seconds since 1970 or a date, as a comment or not; 2026-09-21 14:13:20 UTC is 1,790,000,000 s."""
    text = f"1790000000.5\n{scrape(10)}# 2026-09-21T14:13:22.5{zone}\n{scrape(30, 4)}"
    scrapes = read(tmp_path / "scrapes.txt", text)
    assert scrapes.at_s.tolist() == [1790000000.5, 1790000002.5]
    assert scrapes.added("prompt_tokens").tolist() == [0, 20] and scrapes.gauge("num_requests_running").tolist() == [1, 4]


def test_times_of_the_samples(tmp_path: Path):
    """As Prometheus' own federation has them: milliseconds behind the value."""
    lines = [f"vllm:num_requests_running {value} {1000 * at_s}" for value, at_s in ((3, 1790000000), (5, 1790000015))]
    scrapes = read(tmp_path / "scrapes.txt", "\n".join(lines) + "\n")
    assert scrapes.seconds == 15 and scrapes.gauge("num_requests_running").tolist() == [3, 5]


def test_a_folder_of_scrapes_with_times_in_their_names(tmp_path: Path):
    (tmp_path / "metrics-1790000000.txt").write_text(scrape(10))
    (tmp_path / "metrics-2026-09-21T14-13-30Z.txt").write_text(scrape(40))
    (tmp_path / "20260921_141340.prom").write_text(scrape(50))
    scrapes = read_scrapes(tmp_path)
    assert (scrapes.at_s - 1790000000).tolist() == [0, 10, 20] and scrapes.added("prompt_tokens").tolist() == [0, 30, 40]
    assert scrapes.notes == []


def test_a_folder_of_scrapes_without_any_time_goes_by_the_files(tmp_path: Path):
    for name, at_s in (("a.prom", 1790000000), ("b.prom", 1790000005)):
        (tmp_path / name).write_text(scrape(at_s))
        os.utime(tmp_path / name, (at_s, at_s))
    scrapes = read_scrapes(tmp_path)
    assert scrapes.seconds == 5 and "last changed" in scrapes.notes[0] and len(scrapes.notes) == 1


def series(name: str, values: dict[int, float], **labels: str) -> dict[str, object]:
    pairs = [[1790000000 + at_s, str(value)] for at_s, value in values.items()]
    return {"metric": {"__name__": name, "engine": "0", **labels}, "values": pairs}


def test_a_range_query_of_prometheus(tmp_path: Path):
    """As the HTTP API answers it, as promtool prints it, and one query a file."""
    tokens, running = (
        series("vllm:prompt_tokens_total", {0: 5, 15: 25}),
        series("vllm:num_requests_running", {0: 2, 15: 3}),
    )
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [tokens, running]}}
    one = read(tmp_path / "answer.json", json.dumps(answer))
    other = read(tmp_path / "promtool.json", json.dumps([tokens, running]))
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, single in (("tokens.json", tokens), ("running.json", running)):
        (folder / name).write_text(json.dumps([single]))
    for scrapes in (one, other, read_scrapes(folder)):
        assert scrapes.seconds == 15 and scrapes.added("prompt_tokens").tolist() == [0, 20]
        assert scrapes.gauge("num_requests_running").tolist() == [2, 3]


def test_what_a_vllm_0_32_showed():
    """Its own log of the same seconds: the counters by hand from the file."""
    scrapes = read_scrapes(REAL)
    assert len(scrapes) == 2
    text = REAL.read_text()
    for name in ("prompt_tokens", "generation_tokens", "num_preemptions"):
        first, last = (float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"vllm:{name}_total"))
        assert scrapes.added(name)[-1] == last - first > 0
    finished = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:request_success_total")]
    half = len(finished) // 2
    assert scrapes.added("request_success")[-1] == sum(finished[half:]) - sum(finished[:half]) > 0
    first_tokens = scrapes.histogram("time_to_first_token_seconds")
    assert first_tokens.number >= scrapes.added("request_success")[-1] - 16  # seats
    assert 0 < first_tokens.quantile(0.5) <= first_tokens.quantile(0.99)
    assert first_tokens.shares()[-1] == 1 and first_tokens.edges[-1] == np.inf
    assert 0 < scrapes.gauge("kv_cache_usage_perc").max() <= 1


def test_a_counter_that_falls_began_anew():
    assert increase(np.array([3.0, 5, 2, 4])).tolist() == [0, 2, 4, 6]
    assert increase(np.array([np.nan, 2, np.nan, 7])).tolist() == [0, 2, 2, 7]  # not there yet, not there for once


def test_a_restart_is_said(tmp_path: Path):
    scrapes = read(tmp_path / "scrapes.txt", f"1790000000\n{scrape(10)}1790000005\n{scrape(3)}")
    assert scrapes.added("prompt_tokens").tolist() == [0, 3] and "started again" in scrapes.notes[0]


def test_quantiles_as_promql_has_them():
    """10 up to 1 s, 10 more up to 2 s, 20 above: half of all is at the end of the second bucket."""
    histogram = Histogram(np.array([1, 2, np.inf]), np.array([10.0, 10, 20]), 100.0)
    assert histogram.mean == 2.5
    assert [histogram.quantile(q) for q in (0.125, 0.375, 0.5, 0.9)] == [0.5, 1.5, 2.0, 2.0]


def test_a_histogram_without_a_finite_edge_is_none(tmp_path: Path):
    assert read(tmp_path / "scrapes.txt", buckets('le="+Inf"')).histogram("time_to_first_token_seconds") is None


def test_a_last_scrape_that_is_cut_off_is_left_out_and_said(tmp_path: Path):
    cut = 'vllm:prompt_tokens_total{engine="0"} 99\n'
    text = f"1790000000\n{scrape(10)}1790000005\n{scrape(20)}1790000010\n{cut}"
    scrapes = read(tmp_path / "scrapes.txt", text)
    assert scrapes.added("prompt_tokens").tolist() == [0, 10] and "cut off, left out" in scrapes.notes[0]


def test_scrapes_that_are_cut_off_anywhere_count_nothing_else(tmp_path: Path):
    """Of two the second is cut: it is left out, and one is not enough."""
    text = REAL.read_text()
    for end in range(len(text) - 3000, len(text), 13):
        assert "1 whole scrape" in refused(tmp_path / "cut.prom", text[:end])


@pytest.mark.parametrize(
    "line", ['vllm:prompt_tokens_total{engine="0', "vllm:prompt_tokens_total", 'vllm:num_preemptions_total{engine="0"} many']
)
def test_a_line_that_is_no_sample(tmp_path: Path, line: str):
    message = refused(tmp_path / "scrapes.txt", f"1790000000\n{scrape(1)}{line}\n")
    assert "scrapes.txt, line 4: no Prometheus sample" in message


def test_several_servers_are_told_apart(tmp_path: Path):
    text = "".join(f'{at_s}\nvllm:num_requests_running{{engine="0"}} 1\nvllm:num_requests_running{{engine="1"}} 1\n'
                   for at_s in (1790000000, 1790000005))  # fmt: skip
    assert "2 servers (engine=0, 1); one is simulated" in refused(tmp_path / "scrapes.txt", text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no scrape of a vLLM's /metrics"),
        ("process_cpu_seconds_total 3.2\n", "no scrape of a vLLM's /metrics"),
        ("vllm:lora_requests_info 1\n", "none of the metrics that are compared"),
        (f"1790000000\n{scrape(1)}", "1 whole scrape; rates need two or more"),
        (scrape(1) + scrape(2), "scrape 1 has no time; write one above each"),
        (f"1790000000\n{scrape(1)}" * 2, "1 whole scrape; rates need two"),
        ('{"status": "error", "error": "query timed out"}', "Prometheus answered: query timed out"),
        ('{"data": {"result": [', "is the file cut off?"),
        ('{"ttfts": [0.1], "input_lens": [5]}', "no answer to a range query"),
        ('[{"metric": {}, "values": [[1790000000, "1"]]}]', "1 series without a name: rates and sums have none"),
        ('[{"metric": {"__name__": "vllm:prompt_tokens_total"}, "values": [[1790000000]]}]', "must be [seconds"),
        ('[{"metric": {"__name__": "vllm:prompt_tokens_total"}, "values": [{"at": 1}]}]', "must be [seconds"),
        ('[{"metric": {"__name__": "vllm:prompt_tokens_total"}, "values": [["NaN", "1"]]}]', "must be [seconds"),
        (f'[{{"metric": {{"__name__": "vllm:prompt_tokens_total"}}, "values": [[{10**400}, "1"]]}}]', "must be [seconds"),
        ('[{"metric": {"__name__": ["vllm:prompt_tokens_total"]}, "values": []}]', "no answer to a range query"),
        (f"# 2026-13-45 10:00:00\n{scrape(1)}", "scrape 1 has no time; write one above each"),
        (buckets('le="x"'), "vllm:time_to_first_token_seconds_bucket with le='x': a bucket's edge must be a number"),
        (buckets('engine="0"'), "with le='': a bucket's edge must be a number"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, text: str, what: str):
    assert what in refused(tmp_path / "scrapes.txt", text)


def test_folders_and_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(ValueError, match="no such file"):
        read_scrapes(tmp_path / "none")
    with pytest.raises(ValueError, match="no file in this folder"):
        read_scrapes(tmp_path)


def test_the_parser_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    usual = builtins.__import__

    def without(name, *rest):
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match="pip install prometheus-client"):
        read_exposition(tmp_path / "scrapes.txt", scrape(1))
