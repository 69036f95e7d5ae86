"""`servegen`: the requests have the rates, gaps and lengths of the clients' parameters, built in or read."""

import numpy as np
import pytest

from tests.shared import shared
from tests.traces.generated import assert_shorter_is_a_beginning, published
from traces import open_trace
from traces.generators.servegen import built_in, inverse
from traces.readers.servegen import Histogram, read_clients

LENGTHS = '{"0": {"input_tokens": "{10: 0.25, 20: 0.75}", "output_tokens": "{5: 1.0}"}}'


def write_client(folder, number: int, trace: str, lengths: str | None = LENGTHS) -> None:
    (folder / f"chunk-{number}-trace.csv").write_text(trace)
    if lengths is not None:
        (folder / f"chunk-{number}-dataset.json").write_text(lengths)


@pytest.fixture(scope="module")
def real():
    return str(shared("traces", "servegen", "reason_deepseek-r1.tar.gz"))


@pytest.mark.parametrize("options", [{}, {"rate": 100.0, "start_s": 40_000.0}])
def test_a_shorter_trace_is_the_beginning_of_a_longer_one(options):
    assert_shorter_is_a_beginning("servegen", **options)


def test_the_built_in_clients_are_those_of_the_data(real):
    """The 25 with most requests: their rates, hour by hour, to the three digits that are kept, and 90 % of all."""
    everyone = {client.name.replace("chunk", "client"): client for client in read_clients(real)}
    flows, _ = built_in()
    assert len(flows) == 25
    for flow in flows:
        client = everyone[flow.name]
        hour = (client.start_s // 3600).astype(int)
        hourly = np.bincount(hour, client.rate, minlength=24) / 6
        assert flow.rate == pytest.approx(hourly, rel=0.006)
    ours, theirs = sum(flow.rate.sum() for flow in flows), sum(c.rate.sum() for c in everyone.values()) / 6
    assert ours / theirs == pytest.approx(0.9014, abs=0.001)


def test_a_client_sends_at_its_rates_whatever_its_gaps(tmp_path):
    """10 requests/s, then 30, then 10 again: a renewal process on the clock of the expected number."""
    for number, pattern in enumerate(("Gamma,0.5,0", "Weibull,0.6,0", ",0,0")):
        write_client(tmp_path, number, f"0,10,1,{pattern}\n600,30,1,{pattern}\n")
    trace = open_trace("servegen", clients=str(tmp_path), num_requests=400_000)
    users = np.array(trace.user)
    for number in range(3):
        arrival_s = trace.arrival_s[users == f"chunk-{number}"]
        windows = np.bincount((arrival_s // 600).astype(int))
        assert windows[:-2:2].mean() == pytest.approx(6_000, rel=0.02)
        assert windows[1:-2:2].mean() == pytest.approx(18_000, rel=0.02)


def test_gaps_have_the_shape_of_the_client(tmp_path):
    """Coefficient of variation: 1 / sqrt(0.25) = 2 for gamma gaps of shape 0.25."""
    write_client(tmp_path, 0, "0,10,2,Gamma,0.25,0.4\n600,10,2,Gamma,0.25,0.4\n")
    gaps = np.diff(open_trace("servegen", clients=str(tmp_path), num_requests=100_000).arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(2, rel=0.03)


def test_lengths_are_those_of_the_histograms(tmp_path):
    write_client(tmp_path, 0, "0,10,1,,0,0\n600,10,1,,0,0\n")
    trace = open_trace("servegen", clients=str(tmp_path), num_requests=20_000)
    values, counts = np.unique(trace.prompt_tokens, return_counts=True)
    assert values.tolist() == [10, 20]
    assert counts[0] / 20_000 == pytest.approx(0.25, abs=0.01)
    assert set(trace.output_tokens.tolist()) == {5}


def test_the_inverse_of_a_histogram_has_steps():
    quantiles = inverse(Histogram(np.array([10.0, 20.0, 50.0]), np.array([0.25, 0.5, 0.25])))
    assert quantiles.tokens(np.array([0.01, 0.24, 0.26, 0.74, 0.76, 0.99])).tolist() == [10, 10, 20, 20, 50, 50]
    assert quantiles.mean() == pytest.approx(25)


def test_the_whole_day_of_the_real_clients_has_the_published_rate_and_lengths(real):
    """16.0 requests/s over 24 hours, and the mix of lengths of all clients."""
    stats = published("servegen")["reason/deepseek-r1"]
    trace = open_trace("servegen", clients=real, rate=1.0, num_requests=86_000)
    assert len(set(trace.user)) >= 70
    by_rate = np.bincount((trace.arrival_s // 3600).astype(int), minlength=24)[:23]
    assert np.corrcoef(by_rate, np.array(stats["diurnal_hourly"])[:23])[0, 1] > 0.9
    for percentile in ("p25", "p50", "p75", "p90"):
        ours = np.percentile(trace.output_tokens, int(percentile[1:]))
        assert ours == pytest.approx(stats["length_mix"]["output_tokens"][percentile], rel=0.1), percentile
        ours = np.percentile(trace.prompt_tokens, int(percentile[1:]))
        assert ours == pytest.approx(stats["length_mix"]["input_tokens"][percentile], rel=0.2), percentile


def test_clients_without_lengths_are_left_out_and_it_is_said(tmp_path):
    write_client(tmp_path, 0, "0,10,1,,0,0\n")
    write_client(tmp_path, 1, "0,10,1,,0,0\n", lengths=None)
    trace = open_trace("servegen", clients=str(tmp_path), num_requests=50)
    assert set(trace.user) == {"chunk-0"}
    assert any("1 of 2 clients left out" in note for note in trace.report.notes)


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no such file or folder"):
        open_trace("servegen", clients=str(tmp_path / "absent"))
    write_client(tmp_path, 0, "0,10,1,,0,0\n", lengths=None)
    with pytest.raises(ValueError, match="no client has lengths"):
        open_trace("servegen", clients=str(tmp_path))
    write_client(tmp_path, 0, "0,0,1,,0,0\n")
    with pytest.raises(ValueError, match="send nothing"):
        open_trace("servegen", clients=str(tmp_path))
    with pytest.raises(ValueError, match="trace.start_s is -1"):
        open_trace("servegen", start_s=-1)
