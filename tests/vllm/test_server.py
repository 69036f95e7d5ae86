"""A policy in vLLM's server: what a client writes into `vllm_xargs` decides who is served first."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

START_S, ANSWER_S, LOOK_S = 300.0, 120.0, 0.05
WORDS = 512  # of the tokenizer
LONGEST = 4096


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny llama whose weights vLLM makes up, and a tokenizer of whole words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    from engine.oracle.build import TINY

    (tmp_path / "config.json").write_text(json.dumps(TINY | {"vocab_size": WORDS, "max_position_embeddings": LONGEST}))
    tokenizer = Tokenizer(WordLevel({f"w{word}": word for word in range(WORDS)}, unk_token="w0"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0", "eos_token": "w1"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    return tmp_path


class Server:
    """What `vllm serve` starts, with one seat, on a loopback port of its own.

    `vllm` itself looks for the version of a package of its name, which the one for the CPU has not.
    """

    def __init__(self, model: Path, *words: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", model / "serve.log"
        more = {
            "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1",
        }  # fmt: skip
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
                    "--served-model-name", "tiny",
                    "--load-format", "dummy", "--dtype", "float32", "--max-model-len", str(LONGEST), "--block-size", "32",
                    "--enforce-eager", "--max-num-seqs", "1", "--num-gpu-blocks-override", "256",
                    "--host", "127.0.0.1", "--port", str(port), *words,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | more, start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        pytest.fail(f"not ready after {START_S} s: {self.log.read_text()[-3000:]}")

    def complete(self, tokens: int, **extra: Any) -> tuple[float, dict[str, Any]]:
        """When the answer came, and the answer."""
        body = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        content = json.dumps(body | ({"vllm_xargs": extra} if extra else {})).encode()
        asked = Request(f"{self.url}/v1/completions", content, {"Content-Type": "application/json"})
        with urlopen(asked, timeout=ANSWER_S) as answer:
            return time.monotonic(), json.load(answer)

    def count(self, name: str) -> float:
        with urlopen(f"{self.url}/metrics", timeout=ANSWER_S) as answer:
            found = re.search(rf"^vllm:{name}\{{.*\}} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None, f"/metrics has no vllm:{name}"
        return float(found[1])

    def wait_for(self, name: str, value: float) -> None:
        until = time.monotonic() + ANSWER_S
        while self.count(name) != value:
            assert time.monotonic() < until, f"{name} is {self.count(name)}, not {value}"
            time.sleep(LOOK_S)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(model: Path, version: str) -> Iterator[Server]:
    if version != "0.32":
        pytest.skip(f"there is no vLLM {version} that computes on a CPU, or engine.vllm does not run with it")
    server = Server(model, "--scheduler-cls", "engine.vllm.sjf")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.end()


def test_sjf_goes_by_the_lengths_that_clients_write(server: Server) -> None:
    """One seat, taken; three wait, and then come in by their predictions, not in their order."""
    with ThreadPoolExecutor(4) as clients:
        first = clients.submit(server.complete, LONGEST - 100, twin_predicted_output=LONGEST - 100)
        server.wait_for("num_requests_running", 1)
        waiting: dict[int, Future[tuple[float, dict[str, Any]]]] = {}
        for place, tokens in enumerate((30, 7, 12), start=1):
            waiting[tokens] = clients.submit(server.complete, tokens, twin_predicted_output=tokens)
            server.wait_for("num_requests_waiting", place)
        assert not first.done(), "the seat was free too early: a longer first request is wanted"
        ended = {tokens: answer.result(ANSWER_S) for tokens, answer in waiting.items()}
        assert first.result(ANSWER_S)[1]["usage"]["completion_tokens"] == LONGEST - 100
    assert sorted(ended, key=lambda tokens: ended[tokens][0]) == [7, 12, 30]
    assert {tokens: answer["usage"]["completion_tokens"] for tokens, (_, answer) in ended.items()} == {7: 7, 12: 12, 30: 30}
    with pytest.raises(HTTPError) as refused:  # it brings no prediction
        server.complete(5)
    assert refused.value.code == 500
    assert server.complete(5, twin_predicted_output=5)[1]["usage"]["completion_tokens"] == 5, "others are served on"
