"""Run as a program: vLLM's engine on the CPU, with a tiny model of random weights, and who finishes in which order.

    python -m tests.vllm.real_engine SCHEDULER_CLS TWIN REQUESTS

TWIN is `additional_config["twin"]` in JSON, or null; REQUESTS a list of [id, output tokens, predicted tokens or null, steps
before it comes]. Prints, in JSON, {"order": [[id, tokens, reason], ...], "preemptions": so many}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}  # fmt: skip


def main(scheduler_cls: str, twin: Any, requests: list[list[Any]]) -> dict[str, Any]:
    os.environ.update(ENVIRONMENT)
    from vllm import EngineArgs, SamplingParams
    from vllm.v1.engine.llm_engine import LLMEngine

    from engine.oracle.build import TINY

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(TINY | {"vocab_size": 512, "max_position_embeddings": 512}))
        arguments = EngineArgs(
            model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="float32", max_model_len=256, block_size=32,
            enforce_eager=True, max_num_seqs=1, max_num_batched_tokens=128, num_gpu_blocks_override=64,
            scheduler_cls=scheduler_cls, additional_config={} if twin is None else {"twin": twin},
        )  # fmt: skip
        engine = LLMEngine.from_engine_args(arguments)
    scheduler = engine.engine_core.engine_core.scheduler
    preemptions, preempt = [], scheduler._preempt_request
    scheduler._preempt_request = lambda request, *rest, **more: (
        preemptions.append(request),
        preempt(request, *rest, **more),
    )
    order, steps, to_come = [], 0, sorted(requests, key=lambda request: request[3])
    while to_come or engine.has_unfinished_requests():
        while to_come and to_come[0][3] <= steps:
            name, tokens, predicted, _ = to_come.pop(0)
            extra = None if predicted is None else {"twin_predicted_output": predicted}
            sampling = SamplingParams(
                max_tokens=tokens, ignore_eos=True, temperature=0, detokenize=False, extra_args=extra
            )  # fmt: skip
            engine.add_request(name, {"prompt_token_ids": [1, 2, 3 + len(name)]}, sampling)
        for output in engine.step():
            if output.finished:
                (sequence,) = output.outputs
                order.append([output.request_id, len(sequence.token_ids), sequence.finish_reason])
        steps += 1
    return {"order": order, "preemptions": len(preemptions)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))))
