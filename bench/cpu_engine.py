"""The engine's model against transformers' own forward on one core: decode steps and prefills of SmolLM2-135M.

    python bench/cpu_engine.py [--quick] [--repeats 7] [--dtypes fp32 bf16] [--attention cpu] [--plain]

Both have the same weights and dtype and compute logits of the last position of each sequence. transformers decodes with its
dense DynamicCache, cut back to the context after each step; the engine with a paged cache of blocks of 16. `--plain` takes
the torch operations and products in place of those in C++, `--attention torch` its attention.

One thread on one core. The two take turns, repeat by repeat, and the best of each counts. Times are CPU seconds of the
thread: another process on the core takes nothing away, though one elsewhere still shares the memory and its bandwidth,
which is measured before and after. The last column of prefills is the largest difference of a logit between the two.
"""

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ["HF_HUB_OFFLINE"] = "1"
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before torch is loaded

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.attention.base import AttentionBatch  # noqa: E402
from engine.attention.choose import Wanted, attention_backend  # noqa: E402
from engine.kv_cache import KVCache  # noqa: E402
from engine.model.cpu_linear import cpu_linear  # noqa: E402
from engine.model.cpu_ops import CpuOps  # noqa: E402
from engine.model.embedded import embedded_gguf  # noqa: E402
from engine.model.gguf_file import GgufFile  # noqa: E402
from engine.model.linear import Linear  # noqa: E402
from engine.model.load import EMBEDDED, load_model  # noqa: E402
from engine.model.ops import TorchOps  # noqa: E402

BLOCK_SIZE = 16
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
COLUMNS = "| dtype | step | transformers ms | engine ms | ratio | logits differ by |"


class Step(NamedTuple):
    """`rows` new tokens of each of `sequences`, up to `context` tokens."""

    sequences: int
    rows: int
    context: int

    @property
    def name(self) -> str:
        return f"decode {self.sequences} x {self.context}" if self.rows == 1 else f"prefill {self.context}"


STEPS = [Step(n, 1, context) for n in (1, 4, 16) for context in (64, 512)] + [Step(1, n, n) for n in (64, 256, 1024)]
QUICK = [Step(n, 1, 64) for n in (1, 4, 16)] + [Step(1, 256, 256)]


class Engine:
    """The engine's model with a paged cache."""

    def __init__(self, dtype: str, attention: str, plain: bool) -> None:
        dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        choice = attention_backend(attention, Wanted(torch.device("cpu"), 64, BLOCK_SIZE, dtypes[dtype]))
        print(f"engine: attention={choice.backend.name} {choice.note}, {'torch' if plain else 'C++'} operations", flush=True)
        ops, linear = (TorchOps(), Linear) if plain else (CpuOps(), cpu_linear)
        self.model, self.attention = load_model(EMBEDDED, dtype, ops=ops, linear=linear), choice.backend

    def step(self, step: Step, token_ids: Tensor) -> Callable[[], Tensor]:
        """To be called again and again; what lies in the cache before the step is as if random, but no NaN."""
        config, device = self.model.config, self.model.device
        blocks = -(-step.context // BLOCK_SIZE)
        cache = KVCache(
            config.layers, step.sequences * blocks, BLOCK_SIZE, config.kv_heads, config.head_dim, self.model.dtype, device
        )
        cache.data.normal_()
        batch, ids = _batch(step), token_ids[:, -step.rows :].flatten()
        last = batch.query_start[1:].long() - 1
        return lambda: self.model.logits(self.model.forward(ids, batch, cache, self.attention, last))


class Transformers:
    """transformers' model with its dense cache."""

    def __init__(self, dtype: str) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM, logging

        logging.set_verbosity_error()
        warnings.simplefilter("ignore", FutureWarning)  # newer ones call past_key_values otherwise
        file = GgufFile(embedded_gguf())
        about = file.config
        config = LlamaConfig(
            vocab_size=about.vocab, hidden_size=about.hidden, intermediate_size=about.intermediate,
            num_hidden_layers=about.layers, num_attention_heads=about.heads, num_key_value_heads=about.kv_heads,
            max_position_embeddings=about.max_position, rms_norm_eps=about.rms_norm_eps, tie_word_embeddings=about.tied,
            rope_parameters={"rope_type": "default", "rope_theta": about.rope.theta},
        )  # fmt: skip
        self.model: Any = LlamaForCausalLM(config).eval()
        missing, unexpected = self.model.load_state_dict({name: file.read(name) for name in file.shapes}, strict=False)
        assert (missing, unexpected) == (["lm_head.weight"], []), (missing, unexpected)  # which is tied
        self.model.to(DTYPES[dtype])

    def step(self, step: Step, token_ids: Tensor) -> Callable[[], Tensor]:
        if step.rows > 1:
            return lambda: self.model(token_ids, use_cache=True, logits_to_keep=1).logits[:, -1]
        past = self.model(token_ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values

        def decode() -> Tensor:
            logits = self.model(token_ids[:, -1:], past_key_values=past, use_cache=True).logits[:, -1]
            past.crop(-1)
            return logits

        return decode


def _batch(step: Step) -> AttentionBatch:
    """Sequences in blocks that alternate, so that none lies in one piece."""
    n, blocks = step.sequences, -(-step.context // BLOCK_SIZE)
    tables = torch.arange(n * blocks, dtype=torch.int32).view(blocks, n).T.contiguous()
    positions = torch.arange(step.context - step.rows, step.context)
    slots = tables.long()[:, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    return AttentionBatch(
        query_start=torch.arange(0, n * step.rows + 1, step.rows, dtype=torch.int32),
        context_lens=torch.full((n,), step.context, dtype=torch.int32), block_tables=tables, slots=slots.flatten(),
        positions=positions.repeat(n), num_decodes=n if step.rows == 1 else 0, query_lens=[step.rows] * n,
        contexts=[step.context] * n,
    )  # fmt: skip


def in_turn(calls: list[Callable[[], Tensor]], repeats: int) -> Iterator[float]:
    """The best CPU time of each, in seconds, after one call that does not count."""
    best = [float("inf")] * len(calls)
    for repeat in range(repeats + 1):
        for i, call in enumerate(calls):
            start = time.thread_time()
            call()
            if repeat:
                best[i] = min(best[i], time.thread_time() - start)
    return iter(best)


def read_bandwidth() -> float:
    """Bytes a second, of a sum over 256 MiB of fp32: what one core can read."""
    data = torch.ones(64 << 20)
    return data.nbytes / min(in_turn([data.sum], 5))


def table(steps: list[Step], dtypes: list[str], repeats: int, attention: str, plain: bool) -> None:
    print(f"\n{COLUMNS}\n|---|---|" + "--:|" * 4)
    for dtype in dtypes:
        ours, theirs = Engine(dtype, attention, plain), Transformers(dtype)
        for step in steps:
            ids = torch.randint(0, 49152, (step.sequences, step.context), generator=torch.Generator().manual_seed(0))
            calls = [theirs.step(step, ids), ours.step(step, ids)]
            apart = f"{(calls[0]() - calls[1]()).abs().max():.1e}" if step.rows > 1 else ""
            theirs_s, ours_s = in_turn(calls, repeats)
            figures = f"{theirs_s * 1e3:.1f} | {ours_s * 1e3:.1f} | {theirs_s / ours_s:.2f}"
            print(f"| {dtype} | {step.name} | {figures} | {apart} |", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four steps, three repeats")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--attention", default="cpu")
    parser.add_argument("--plain", action="store_true")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = [line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name")]
    print(f"{names[0] if names else platform.processor()}, one core of {len(names) or os.cpu_count()}; "
          f"Python {platform.python_version()}, torch {torch.__version__}")  # fmt: skip
    print(f"it reads {read_bandwidth() / 1e9:.1f} GB/s")
    with torch.inference_mode():
        table(
            QUICK if chosen.quick else STEPS, chosen.dtypes, chosen.repeats or (3 if chosen.quick else 7),
            chosen.attention, chosen.plain,
        )  # fmt: skip
    print(f"\nit reads {read_bandwidth() / 1e9:.1f} GB/s")


def _cpu_info() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []


if __name__ == "__main__":
    main(sys.argv[1:])
