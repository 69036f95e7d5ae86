"""`twin traces`: list, show, convert, fetch, as CONTRACT section 1 has them."""

import http.server
import threading
from functools import partial

import numpy as np
import pytest

from tests.shared import shared
from traces import Prefix, Trace, open_trace
from traces.catalogue import PUBLIC
from traces.compare import distance_at_quantiles, kolmogorov_smirnov
from traces.generators import GENERATORS
from traces.readers import READERS
from traces.statistics import statistics
from traces.write import write_trace
from twin.cli.main import main


@pytest.fixture(autouse=True)
def away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(capsys, *words: str) -> str:
    assert main(["traces", *words]) == 0
    return capsys.readouterr().out


def refused(capsys, *words: str, status: int = 2) -> str:
    assert main(["traces", *words]) == status
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def small_csv(path, rows: int = 30) -> str:
    lines = [f"{row * 2.5},{100 + row},{row + 1}" for row in range(rows)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]))
    return str(path)


def test_the_list_names_everything_there_is_and_its_licence(capsys):
    text = run(capsys, "list")
    for name in (*GENERATORS, "mix", *READERS, *PUBLIC):
        assert f"  {name} " in text
    assert all(trace.licence in text for trace in PUBLIC.values())


@pytest.mark.parametrize("command", ["list", "show", "convert", "fetch"])
def test_every_subcommand_answers_help(capsys, command):
    text = run(capsys, command, "--help")
    assert f"usage: python -m twin traces {command}" in text and "example: python -m twin traces" in text


def test_a_generator_is_shown_beside_its_source(capsys, tmp_path):
    text = run(capsys, "show", "chat", "num_requests=3000", "seeds=2", "trace.rate=4")
    rows = {line[:27].strip(): line[27:].split() for line in text.splitlines()}
    assert "CC-BY-4.0" in text and "median of 2" in text
    assert text.count("19,366") == 1  # the source's number of requests
    assert any(key.startswith("fano_60s") for key in rows) and "KS prompt, at 29 quantiles" in text
    assert (tmp_path / "traces_chat.png").read_bytes()[:4] == b"\x89PNG"


def test_a_generator_beside_the_real_file(capsys, tmp_path):
    file = shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    text = run(capsys, "show", "chat", f"source={file}", "seeds=1", "--out", str(tmp_path / "beside.png"))
    distances = {line.split()[1]: float(line.split()[-1]) for line in text.splitlines() if line.startswith("KS ")}
    assert distances["prompt"] <= 0.04 and distances["output"] <= 0.04 and distances["total"] <= 0.05
    assert (tmp_path / "beside.png").exists() and not (tmp_path / "traces_chat.png").exists()


def test_a_file_is_shown_with_its_report(capsys, tmp_path):
    text = run(capsys, "show", small_csv(tmp_path / "t.csv"), "figure=false")
    assert "30 requests read" in text and "\nrate " in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("rate ")] == ["0.4000"]
    assert not list(tmp_path.glob("*.png"))


def test_a_closed_loop_and_a_burst_are_shown(capsys, tmp_path):
    run(capsys, "show", "synthetic", "arrivals=closed(4,think=1)", "num_requests=50")
    run(capsys, "show", "synthetic", "trace.arrivals=burst()", "num_requests=50", "out=b.png")
    assert {path.name for path in tmp_path.glob("*.png")} == {"traces_synthetic.png", "b.png"}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_converted_and_read_back_the_requests_are_the_same_bit_for_bit(capsys, tmp_path, suffix):
    out = str(tmp_path / f"o{suffix}")
    words = ("num_requests=500", "users=zipf(1.1,n=9)", "deadline_s=exponential(3)", "rate=7")
    assert "500 requests written" in run(capsys, "convert", "chat", out, *words)
    made = open_trace("chat", num_requests=500, users="zipf(1.1,n=9)", deadline_s="exponential(3)", rate=7)
    assert same(open_trace("file", path=out), made)


def test_a_trace_with_prefixes_survives_and_one_that_starts_late_starts_at_0(capsys, tmp_path):
    source, out = str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")
    content = Prefix.of([[1, 2], [1, 3], [7]], [40, 40, 20], 16)
    write_trace(Trace("p", np.array([0.1, 0.7, 3.3]), content.prompt_tokens, np.array([1, 2, 3]), prefix=content), source)
    run(capsys, "convert", source, out)
    trace = open_trace("file", path=out)
    assert trace.prefix.shareable_tokens().tolist() == [16, 16, 0] and trace.arrival_s[0] == 0
    assert same(trace, open_trace("file", path=source))


def same(one: Trace, other: Trace) -> bool:
    columns, others = one.columns(), other.columns()
    return columns.keys() == others.keys() and all(
        values == others[name]
        if isinstance(values, list)
        else np.array_equal(values, others[name], equal_nan=values.dtype == float)
        for name, values in columns.items()
    )


def test_nothing_is_replaced_unless_forced(capsys, tmp_path):
    source = small_csv(tmp_path / "t.csv")
    (tmp_path / "o.csv").write_text("mine")
    assert "exists; force=true replaces it" in refused(capsys, "convert", source, "o.csv")
    assert (tmp_path / "o.csv").read_text() == "mine"
    run(capsys, "convert", source, "o.csv", "--force")
    run(capsys, "convert", source, "o.csv", "force=true", "num_requests=3")
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 4


def test_reader_options_go_to_the_reader(capsys, tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,6\n1000,x,8\n2000,7,8\n")
    assert "t.csv:3" in refused(capsys, "convert", "t.csv", "o.csv")
    assert not (tmp_path / "o.csv").exists()
    assert "dropped 1: malformed rows" in run(capsys, "convert", "t.csv", "o.csv", "on_error=skip", "trace.time_unit=ms")
    assert open_trace("file", path="o.csv").arrival_s.tolist() == [0, 2]


def test_a_fetched_trace_is_found_by_its_name(capsys, tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "www").mkdir()
    small_csv(tmp_path / "www" / "x.csv")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "www"))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/x.csv"
        assert "not downloaded yet; run: twin traces fetch azure2024_conv" in refused(capsys, "show", "azure2024_conv")
        printed = run(capsys, "fetch", "azure2024_conv", f"url={url}")
        place = tmp_path / "cache" / "twin" / "traces" / PUBLIC["azure2024_conv"].file
        assert printed == f"{place}\n" and place.exists()
        assert "30 requests read" in run(capsys, "show", "azure2024_conv", "figure=false")
        error = refused(capsys, "fetch", "azure2023_conv", f"url={url}", status=1)
        assert "must have 719,188" in error and len(error.splitlines()) == 2  # what it is, and what is wrong
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no subcommand; there are list, show, convert, fetch"),
        (["shw"], "there is no traces shw; did you mean show?"),
        (["list", "x"], "takes no words"),
        (["show"], "give NAME, not 0 names"),
        (["show", "chatt"], "chatt: neither a file nor a trace; did you mean chat?"),
        (["show", "chat", "rat=3"], "trace=chat has no option trace.rat"),
        (["show", "chat", "seed=x"], "seed=x: must be an integer"),
        (["show", "chat", "seeds=0"], "seeds=0: must be at least 1"),
        (["show", "chat", "out=x.pdf"], "out=x.pdf: must be a .png"),
        (["show", "chat", "--outt", "x.png"], "--outt: unknown flag"),
        (["show", "chat", "--out"], "--out: needs a value"),
        (["show", "chat", "day_curve=[1,2"], "not readable"),
        (["convert", "chat"], "give IN and OUT, not 1 names"),
        (["convert", "chat", "o.txt"], "o.txt: its name must end in .parquet or .csv"),
        (["convert", "chat", "no/where/o.csv"], "there is no folder no/where"),
        (["convert", "synthetic", "o.csv", "arrivals=closed(3)"], "a closed loop has no arrival times"),
        (["convert", "chat", "o.csv", "force=maybe"], "force=maybe: must be true or false"),
        (["fetch", "azure2023"], "azure2023: no public trace of this name; did you mean azure2023_"),
        (["fetch", "sharegpt", "ulr=x"], "ulr: no such option; did you mean url"),
        (["fetch", "sharegpt", "url=file:///x"], "must be an http:// or https:// address"),
        (["fetch", "sharegpt", "timeout_s=0"], "must be more than 0 seconds"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(capsys, words, problem):
    error = refused(capsys, *words)
    assert problem in error and error.splitlines()[-1].startswith("twin traces: ")


def test_options_of_any_trace_reach_it_from_run_and_are_recorded(capsys, tmp_path):
    words = ["trace.from_s=10", "trace.users=zipf(1.1,n=5)", "trace.priority=choice(0:0.5,1:0.5)", "trace.num_requests=40"]
    more = [
        "trace.deadline_s=uniform(1,10)",
        "trace.day_curve=servegen_mid",
        "trace.max_output_tokens=50",
        "output.figures=false",
    ]
    assert main(["run", *words, *more, "hydra.run.dir=r", "output.report=false"]) == 0
    recorded = (tmp_path / "r" / "config.yaml").read_text()
    for told in (
        "from_s: 10",
        "users: zipf(1.1,n=5)",
        "day_curve: servegen_mid",
        "time slice from 10",
        "clipped to 50 output",
    ):
        assert told in recorded
    import pandas

    requests = pandas.read_parquet(tmp_path / "r" / "requests.parquet")
    assert len(requests) == 40 and set(requests.user) <= {f"user{number}" for number in range(1, 6)}
    assert set(requests.priority) == {0, 1} and ((requests.deadline_s - requests.arrival_s) >= 1).all()
    capsys.readouterr()


def test_a_mix_from_run(capsys, tmp_path):
    parts = "trace.parts=[{name: chat, weight: 3}, {name: synthetic, weight: 1, prompt_tokens: 77}]"
    assert main(["run", "trace=mix", parts, "trace.num_requests=80", "hydra.run.dir=r", "output.figures=false"]) == 0
    assert "60 of chat (0.75), 20 of synthetic (0.25)" in capsys.readouterr().out


def test_distances_by_hand_and_against_scipy():
    from scipy import stats

    one, other = np.array([1, 2, 2, 3, 9]), np.array([2, 3, 4, 4])
    assert kolmogorov_smirnov(one, other) == pytest.approx(stats.ks_2samp(one, other).statistic)
    sample = np.arange(1, 101)
    assert distance_at_quantiles(sample, (0.25, 0.5), (25, 50)) == 0
    assert distance_at_quantiles(sample, (0.25, 0.5), (25, 60)) == pytest.approx(0.09)  # 59 % lie below 60
    assert distance_at_quantiles(sample, (0.1, 0.9), (50, 50)) == pytest.approx(0.4)  # a jump from 10 % to 90 % there


def test_the_statistics_of_the_real_file_are_those_measured_elsewhere():
    import json

    trace = open_trace("file", path=str(shared("traces", "azure_llm_2023", "AzureLLMInferenceTrace_code.csv")))
    found = statistics(trace)
    measured = json.loads(shared("reference", "stats.json").read_text())["azure2023_code"]
    assert found["acf_60s"] == pytest.approx(measured["acf_60s"]["1"], rel=0.02)
    for key in ("fano_10s", "fano_60s", "gap_cv", "rate"):
        assert found[key] == pytest.approx(measured[key], rel=0.02)


def test_committed_figures_are_those_measured():
    import json

    from traces.sources import SOURCES

    measured = json.loads(shared("reference", "stats.json").read_text())
    names = {"chat": "azure2023_conv", "code": "azure2023_code", "agent": "claude_code_sessions"}
    names |= {"summarize": "arxiv_summarization", "long_context": "mooncake_synthetic"}
    assert SOURCES.keys() == names.keys()
    for name, source in SOURCES.items():
        theirs = measured[names[name]]
        assert source.figures["requests"] == theirs["n"]
        assert source.figures["prompt_mean"] == pytest.approx(theirs["input"]["mean"])
        assert dict(zip(source.levels, source.output_tokens, strict=True))[0.5] == theirs["output"]["p50"]
        if "fano_60s" in source.figures:
            assert source.figures["fano_60s"] == pytest.approx(theirs["fano_60s"], rel=1e-4)


def test_what_an_endless_cache_would_hit_by_hand():
    content = Prefix.of([[1, 2, 3], [9], [1, 2, 4], [1, 5, 6], [1, 2, 4]], [48, 16, 48, 48, 48], 16)
    assert content.cached_tokens().tolist() == [0, 0, 32, 16, 48]
    assert content.shareable_tokens().tolist() == [32, 0, 48, 16, 48]
