"""ServeGen data: parameters of clients in folders and archives."""

import io
import json
import tarfile

import numpy as np
import pytest

from tests.shared import shared
from traces.readers.servegen import read_clients

WINDOWS = "0,0,0,,0,0\n600,0.5,2,Gamma,0.25,8\n1200,1.5,1.2,Weibull,0.9,0.7\n"
LENGTHS = {"0": {"input_tokens": "{}"}, "21600": {"input_tokens": "{46: 0.75, 45: 0.25}", "output_tokens": "{7: 1.0}"}}


def _folder(tmp_path, windows=WINDOWS, lengths=LENGTHS):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "chunk-10-trace.csv").write_text(windows)
    (tmp_path / "m" / "chunk-2-trace.csv").write_text(WINDOWS)
    text = lengths if isinstance(lengths, str) else json.dumps(lengths)
    (tmp_path / "m" / "chunk-10-dataset.json").write_text(text)
    return tmp_path / "m"


def _problem(path):
    with pytest.raises(ValueError) as caught:
        read_clients(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_clients_of_a_folder(tmp_path):
    second, tenth = read_clients(_folder(tmp_path))
    assert (second.name, tenth.name) == ("chunk-2", "chunk-10") and second.lengths == {}
    assert tenth.start_s.tolist() == [0, 600, 1200] and tenth.rate.tolist() == [0, 0.5, 1.5]
    assert tenth.pattern == ["", "Gamma", "Weibull"] and tenth.shape.tolist() == [0, 0.25, 0.9]
    assert tenth.scale.tolist() == [0, 8, 0.7] and tenth.cv.tolist() == [0, 2, 1.2]
    assert list(tenth.lengths) == [21600], "a window without lengths is left out"
    prompts = tenth.lengths[21600]["input_tokens"]
    assert prompts.values.tolist() == [45, 46] and prompts.probabilities.tolist() == [0.25, 0.75]
    assert prompts.mean() == 45.75


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_clients_of_an_archive(tmp_path, mode):
    with tarfile.open(tmp_path / "m.tar", mode) as archive:
        archive.add(_folder(tmp_path), "language/m")
    assert [client.name for client in read_clients(tmp_path / "m.tar")] == ["chunk-2", "chunk-10"]


@pytest.mark.parametrize(
    "windows, problem",
    [
        ("", "chunk-10-trace.csv:1: the file is empty"),
        ("0,1,1,Gamma,1\n", "chunk-10-trace.csv:1: 5 fields"),
        ("0,1,1,Gamma,1,1\n600,1,1,Pareto,1,1\n", "chunk-10-trace.csv:2: pattern is 'Pareto'"),
        ("0,x,1,Gamma,1,1\n", "chunk-10-trace.csv:1: could not convert"),
        ("0,nan,1,Gamma,1,1\n", "chunk-10-trace.csv:1: numbers must be finite"),
        ("0,-1,1,Gamma,1,1\n", "chunk-10-trace.csv:1: numbers must be finite"),
        ("0,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", "chunk-10-trace.csv:2: starts at 0 s, not after"),
    ],
)
def test_bad_windows_are_named_by_line(tmp_path, windows, problem):
    assert problem in _problem(_folder(tmp_path, windows))


@pytest.mark.parametrize(
    "lengths, problem",
    [
        ("{", "chunk-10-dataset.json: not JSON"),
        ([1], "must be an object of windows"),
        ({"soon": {}}, "window 'soon' must be a number of seconds"),
        ({"0": {"input_tokens": {"1": 1}}}, "window 0, input_tokens: must be a text like"),
        ({"0": {"input_tokens": "{1: __import__('os').getpid()}"}}, "must be a text like"),
        ({"0": {"input_tokens": "{1: 0.5, 2}"}}, "must be pairs of a length and a probability"),
        ({"0": {"input_tokens": "{1: 0.5}"}}, "probabilities must sum to 1, not 0.5"),
        ({"0": {"input_tokens": "{-1: 1.0}"}}, "lengths must not be negative"),
    ],
)
def test_bad_lengths_are_named_by_window_and_never_evaluated(tmp_path, lengths, problem):
    assert problem in _problem(_folder(tmp_path, lengths=lengths))


def test_what_is_no_such_data(tmp_path):
    assert "there is no such file or folder" in _problem(tmp_path / "none")
    assert "no ServeGen client in it" in _problem(tmp_path)
    (tmp_path / "x.tar").write_bytes(b"not a tar")
    assert "cannot be read" in _problem(tmp_path / "x.tar")
    _folder(tmp_path)
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "chunk-0-trace.csv").write_text(WINDOWS)
    assert "holds several models (m, n)" in _problem(tmp_path)


def test_an_archive_may_not_unpack_to_more_than_fits(tmp_path):
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("m/chunk-0-trace.csv")
        member.size = 65 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    assert "chunk-0-trace.csv: more than 64 MiB" in _problem(tmp_path / "bomb.tar.gz")


@pytest.mark.parametrize("data", ["reason_deepseek-r1", "language_m-mid"])
def test_the_real_data_against_its_published_statistics(data):
    clients = read_clients(shared("traces", "servegen", f"{data}.tar.gz"))
    stats = json.loads(shared("reference", "stats.json").read_text())["servegen"][data.replace("_", "/")]
    assert len(clients) == stats["clients"]
    starts = np.unique(np.concatenate([client.start_s for client in clients]))
    total = np.zeros(len(starts))
    for client in clients:
        total[np.searchsorted(starts, client.start_s)] += client.rate
    assert len(total) == stats["windows"] and total.mean() == pytest.approx(stats["rate_mean"], rel=1e-12)
    assert total.max() == pytest.approx(stats["rate_max"], rel=1e-9)
