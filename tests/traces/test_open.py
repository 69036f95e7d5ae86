"""The one entry: names, options, how many requests and how fast."""

import numpy as np
import pytest
import yaml

import conf
from traces import open_trace
from traces.generators import GENERATORS


@pytest.mark.parametrize("name", ["chat", "synthetic"])
def test_the_first_requests_of_a_longer_trace_are_those_of_a_shorter_one(name):
    short, long = open_trace(name, num_requests=100), open_trace(name, num_requests=1000)
    assert short.arrival_s.tolist() == long.arrival_s[:100].tolist()
    assert short.prompt_tokens.tolist() == long.prompt_tokens[:100].tolist()
    assert short.output_tokens.tolist() == long.output_tokens[:100].tolist()


@pytest.mark.parametrize("name", ["chat", "synthetic"])
def test_lengths_do_not_depend_on_the_rate_and_seeds_differ(name):
    trace = open_trace(name, num_requests=100)
    assert open_trace(name, num_requests=100, rate=50).output_tokens.tolist() == trace.output_tokens.tolist()
    assert open_trace(name, num_requests=100, seed=1).output_tokens.tolist() != trace.output_tokens.tolist()


@pytest.mark.parametrize("name", ["chat", "synthetic"])
@pytest.mark.parametrize("limits", [{"num_requests": 300}, {"duration_s": 40}, {}])
def test_a_rate_is_exactly_the_mean_rate(name, limits):
    trace = open_trace(name, rate=8, **limits)
    assert (len(trace) - 1) / trace.arrival_s[-1] == pytest.approx(8)
    assert len(trace) == {"num_requests": 300, "duration_s": 320}.get(next(iter(limits), ""), 10_000)


@pytest.mark.parametrize("name", ["chat", "synthetic"])
def test_a_duration_is_filled_and_kept(name):
    trace = open_trace(name, duration_s=4000)  # more than the 10,000 requests of the default
    assert 3990 < trace.arrival_s[-1] < 4000
    assert len(open_trace(name, duration_s=4000, num_requests=50)) == 50


def test_a_burst_fills_no_duration():
    assert len(open_trace("synthetic", arrivals="burst()", duration_s=5)) == 10_000


def test_constant_arrivals_for_a_second():
    trace = open_trace("synthetic", arrivals="constant(8)", prompt_tokens=1, output_tokens=2, duration_s=1, priority=3)
    assert trace.arrival_s.tolist() == [k / 8 for k in range(8)]
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([1] * 8, [2] * 8)
    assert trace.priority.tolist() == [3] * 8


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"name": "chatt"}, "there is no trace 'chatt'; there are chat, "),
        ({"name": "file"}, "trace=file needs trace.path"),
        ({"name": "chat", "path": "x.csv"}, "reads no file"),
        ({"name": "chat", "num_requests": 0}, "trace.num_requests is 0"),
        ({"name": "chat", "num_requests": 1.5}, "must be an integer"),
        ({"name": "chat", "num_requests": 10**12}, "from 1 to 50,000,000"),
        ({"name": "chat", "rate": -2}, "trace.rate is -2"),
        ({"name": "chat", "rate": float("nan")}, "trace.rate is nan"),
        ({"name": "chat", "rate": "fast"}, "trace.rate is fast"),
        ({"name": "chat", "rate": 1e6, "duration_s": 1e6}, "too many"),
        ({"name": "chat", "duration_s": 0}, "trace.duration_s is 0"),
        ({"name": "chat", "on_error": "ignore"}, "allowed are error, skip"),
        ({"name": "chat", "arrivals": "poisson(1)"}, "trace=chat has no option trace.arrivals; its own are none"),
        ({"name": "synthetic", "arrival": "poisson(1)"}, "no option trace.arrival; its own are arrivals, "),
        ({"name": "synthetic", "arrivals": "closed(4)", "rate": 2}, "trace.rate does not go with closed"),
        ({"name": "synthetic", "arrivals": "closed(4)", "duration_s": 2}, "trace.duration_s does not go with closed"),
        ({"name": "synthetic", "arrivals": "burst()", "rate": 2}, "arrive at once"),
        ({"name": "synthetic", "prefix_groups": 2}, "needs trace.prefix_tokens"),
        ({"name": "synthetic", "prefix_tokens": 0}, "trace.prefix_tokens is 0"),
        ({"name": "synthetic", "prefix_tokens": 4, "prefix_groups": 0}, "trace.prefix_groups is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments, problem):
    with pytest.raises(ValueError) as caught:
        open_trace(**arguments)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*GENERATORS, "file"])
def test_the_options_of_the_command_line_are_those_of_open_trace(name, tmp_path):
    """Every key of conf/trace/NAME.yaml is accepted, and its defaults are those of the code."""
    options = yaml.safe_load(open(f"{conf.__path__[0]}/trace/{name}.yaml", encoding="utf-8"))
    assert options["name"] == name
    plain: dict[str, object] = {"name": name}
    if name == "file":
        (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,6\n2,7,8\n")
        options["path"] = plain["path"] = str(tmp_path / "t.csv")
    given, default = open_trace(**options), open_trace(**plain)
    for column, values in default.columns().items():
        assert np.array_equal(getattr(given, column), values)
