"""How much of a decode step is not the model: scheduling, arrays, Python, tokens back to their sequences.

    python bench/engine_overhead.py [--batch 16] [--dtype fp32] [--asynchronous]

SmolLM2-135M on one pinned core, all requests at once, long enough for some hundred steps of the full batch. A step lasts
from its plan to its tokens on the host and the next one begins there, so all that is done between is in it; `device_s` is
the computation alone: forward pass and choice of tokens. Shares of the whole, medians over the steps.
"""

import argparse
import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from engine.model.cpu_linear import cpu_linear  # noqa: E402
from engine.model.cpu_ops import CpuOps  # noqa: E402
from engine.model.load import EMBEDDED, load_model  # noqa: E402
from engine.offline import Engine  # noqa: E402
from engine.sampling.params import SamplingParams  # noqa: E402
from twin.core import Limits, Rules  # noqa: E402

PROMPT, OUTPUT = 64, 160  # tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--dtype", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--asynchronous", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    print("| dtype | batch | steps | step ms | of it the model's ms | the rest | at temperature 1 |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for dtype in options.dtype:
        model = load_model(EMBEDDED, dtype, ops=CpuOps(), linear=cpu_linear)
        for batch in options.batch:
            steps, step_ms, model_ms = measured(model, batch, 0.0, options.asynchronous)
            _, sampled_ms, sampled_model_ms = measured(model, batch, 1.0, options.asynchronous)
            rest, sampled = 1 - model_ms / step_ms, 1 - sampled_model_ms / sampled_ms
            print(
                f"| {dtype} | {batch} | {steps} | {step_ms:.2f} | {model_ms:.2f} | {rest:.1%} | {sampled:.1%} |", flush=True
            )


def measured(model, batch: int, temperature: float, asynchronous: bool) -> tuple[int, float, float]:
    """(steps of the full batch, median milliseconds of a step, and of the model in it)."""
    limits = Limits(1024, max_num_seqs=batch, max_model_len=1024)
    engine = Engine(model, limits, rules=Rules(async_scheduling=asynchronous))
    prompts = [[(7 * row + place) % 40_000 + 1000 for place in range(PROMPT)] for row in range(batch)]
    gc.collect()
    engine.generate(prompts, SamplingParams(max_tokens=OUTPUT, ignore_eos=True, temperature=temperature))
    steps = engine.last_run.steps
    full = (steps["sequences"] == batch) & (steps["prefill_tokens"] == 0)
    return int(full.sum()), *(float(np.median(steps[name][full])) * 1e3 for name in ("duration_s", "device_s"))


if __name__ == "__main__":
    main()
