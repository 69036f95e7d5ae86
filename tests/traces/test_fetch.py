"""Downloads against a server on this machine: good, wrong, cut off, silent, full disk."""

import errno
import hashlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from traces import fetch as module
from traces.catalogue import PUBLIC, PublicTrace
from traces.fetch import FetchError, cache_folder, fetch

BODY = bytes(range(256)) * 1200  # 307,200 bytes, more than one piece
SHA = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `body`; what it does wrong is set by its attributes."""

    daemon_threads = True
    body = BODY
    etag = '"v1"'
    cut_after: int | None = None  # bytes, then the connection closes
    ranges = True  # whether it knows of Range
    named_length = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str | None]] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/files/t.csv"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.seen.append((self.path, wanted))
        if "silent" in self.path:
            server.release.wait(20)
            return
        if "missing" in self.path:
            self.send_error(404)
            return
        begin = 0
        if wanted and server.ranges and self.headers.get("If-Range") == server.etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(server.body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(server.body) - 1}/{len(server.body)}")
        else:
            self.send_response(200)
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.named_length:
            self.send_header("Content-Length", str(len(server.body) - begin))
        self.end_headers()
        end = len(server.body) if server.cut_after is None else begin + server.cut_after
        self.wfile.write(server.body[begin:end])


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.release.set()
    made.shutdown()
    made.server_close()
    thread.join()


def public(server: Server, **changes: object) -> PublicTrace:
    whole = PublicTrace("t", "a test", server.url, "CC0", "nobody", len(BODY), SHA)
    return replace(whole, **changes)


def refused(trace: PublicTrace, folder: Path, **options) -> str:
    with pytest.raises(FetchError) as caught:
        fetch(trace, folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_good_file_is_kept_and_not_asked_for_again(server, tmp_path):
    told: list[tuple[int, int | None]] = []
    place = fetch(public(server), tmp_path / "new" / "folder", progress=lambda have, whole: told.append((have, whole)))
    assert place == tmp_path / "new" / "folder" / "t.csv" and place.read_bytes() == BODY
    assert names(place.parent) == ["t.csv"] and told[-1] == (len(BODY), len(BODY))
    assert fetch(public(server), place.parent) == place and len(server.seen) == 1


def test_without_size_and_sha_the_servers_length_is_checked(server, tmp_path):
    trace = public(server, size=None, sha256=None)
    assert fetch(trace, tmp_path).read_bytes() == BODY
    server.named_length = False
    assert fetch(trace, tmp_path / "b").read_bytes() == BODY


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    message = refused(public(server, sha256="0" * 64), tmp_path)
    assert server.url in message and f"SHA-256 is {SHA}, must be {'0' * 64}" in message and names(tmp_path) == []


def test_a_damaged_file_in_the_cache_is_downloaded_anew(server, tmp_path):
    (tmp_path / "t.csv").write_bytes(BODY[:-1] + b"x")
    assert fetch(public(server), tmp_path).read_bytes() == BODY


def test_a_wrong_size_is_found_before_the_transfer(server, tmp_path):
    assert "has 307,200 bytes, must have 99" in refused(public(server, size=99), tmp_path)
    assert names(tmp_path) == []
    server.named_length = False
    assert "goes on after 99 bytes" in refused(public(server, size=99), tmp_path)


def test_a_file_of_unknown_size_is_bounded(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    assert "must have at most 1,000" in refused(public(server, size=None, sha256=None), tmp_path)


def test_a_cut_off_transfer_is_resumed_with_a_range(server, tmp_path):
    server.cut_after = 100_000
    message = refused(public(server), tmp_path)
    assert "ended after 100,000 of 307,200 bytes; the same command resumes it" in message
    assert "t.csv" not in names(tmp_path)
    server.cut_after = None
    assert fetch(public(server), tmp_path).read_bytes() == BODY
    assert [wanted for _, wanted in server.seen] == [None, "bytes=100000-"] and names(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("change", ["ranges", "etag", "another address"])
def test_where_the_file_may_be_another_the_download_begins_anew(server, tmp_path, change):
    server.cut_after = 100_000
    refused(public(server), tmp_path)
    server.cut_after = None
    if change == "ranges":
        server.ranges = False  # answers 200 with the whole file
    if change == "etag":
        server.etag = '"v2"'
    url = server.url.replace("files", "mirror") if change == "another address" else None
    assert fetch(public(server), tmp_path, url=url).read_bytes() == BODY


def test_a_server_that_names_no_version_is_not_resumed(server, tmp_path):
    server.etag, server.cut_after = "", 1000
    refused(public(server), tmp_path)
    server.cut_after = None
    assert fetch(public(server), tmp_path).read_bytes() == BODY
    assert [wanted for _, wanted in server.seen] == [None, None]


def test_a_part_longer_than_the_file_begins_anew(server, tmp_path):
    trace = public(server, size=None)
    server.cut_after = 200_000
    refused(trace, tmp_path)
    server.body, server.cut_after = BODY[:1000], None
    assert "changed or damaged" in refused(trace, tmp_path)  # 416, then the whole new file, which is not the right one
    assert [wanted for _, wanted in server.seen] == [None, "bytes=200000-", None]


def test_a_missing_file_and_no_server_at_all(server, tmp_path):
    assert "the server answers 404 Not Found" in refused(public(server), tmp_path, url=server.url + "/missing")
    assert "cannot be reached (connection refused)" in refused(public(server), tmp_path, url="http://127.0.0.1:9/t.csv")
    assert names(tmp_path) == []


def test_a_server_that_never_answers_is_left_after_the_timeout(server, tmp_path):
    begin = time.monotonic()
    message = refused(public(server), tmp_path, url=server.url + "/silent", timeout_s=0.2)
    assert "no answer within 0.2 s" in message and time.monotonic() - begin < 15
    assert "took too long; the same command resumes after" in refused(public(server), tmp_path, most_s=0)


def test_a_full_disk_is_told_and_what_came_is_kept(server, tmp_path, monkeypatch):
    def full(file, piece):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_all", full)
    message = refused(public(server), tmp_path)
    assert message == f"cannot write {tmp_path / 't.csv.part'}: no space left on device"


def test_a_limit_of_the_system_on_file_size(server, tmp_path):
    pytest.importorskip("resource")
    program = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        from pathlib import Path
        from traces.catalogue import PublicTrace
        from traces.fetch import FetchError, fetch
        try:
            fetch(PublicTrace("t", "", "{server.url}", "", ""), Path("{tmp_path}"))
        except FetchError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.stdout == f"cannot write {tmp_path / 't.csv.part'}: file too large\n" and done.stderr == ""
    assert (tmp_path / "t.csv.part").stat().st_size == 50_000
    assert fetch(public(server), tmp_path).read_bytes() == BODY  # the rest, once there is room
    assert server.seen[-1][1] == "bytes=50000-"


def test_two_processes_do_not_write_one_file(server, tmp_path):
    pytest.importorskip("fcntl")
    partial = module.Partial(tmp_path / "t.csv.part", server.url)
    with partial.locked():
        assert "another process is downloading it" in refused(public(server), tmp_path)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "t.csv", "http:///x", ""])
def test_only_addresses_of_the_web(tmp_path, url):
    with pytest.raises(ValueError, match="must be an http:// or https:// address"):
        fetch(PUBLIC["azure2023_conv"], tmp_path, url=url)


def test_the_cache_folder_follows_the_standard(monkeypatch):
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/twin/traces")
    monkeypatch.setenv("HOME", "/home/someone")
    for environment in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert cache_folder(environment) == Path("/home/someone/.cache/twin/traces")


def test_the_table_of_public_traces_is_complete():
    for name, trace in PUBLIC.items():
        assert name == trace.name and trace.url.startswith("https://") and trace.licence and trace.cite and trace.about
        assert trace.sha256 is None or (len(trace.sha256) == 64 and int(trace.sha256, 16))
    assert len({trace.file for trace in PUBLIC.values()}) == len(PUBLIC)  # none takes another's place in the cache


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("azure2023_conv", ("azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")),
        ("azure2023_code", ("azure_llm_2023", "AzureLLMInferenceTrace_code.csv")),
        ("mooncake_conversation", ("mooncake_fast25", "conversation_trace.jsonl")),
    ],
)
def test_sizes_and_checksums_are_those_of_the_real_files(name, parts):
    from tests.shared import shared

    assert module.wrong(shared("traces", *parts), PUBLIC[name]) is None
