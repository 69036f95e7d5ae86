"""vLLM's end of bench/peer.py, in an environment of its own: serves runs of requests, told and answered in lines of JSON.

    python bench/peer_vllm.py MODEL_FOLDER OPTIONS     OPTIONS: JSON, bench/peer.py makes it

The engine stays in this process and thread. Time is the thread's CPU time; where there is nothing to do it is set forward to
the next arrival, as engine/device.py does with a clock that skips idle time.
"""

import gc
import json
import os
import sys
import time
from typing import Any

os.environ |= {
    "HF_HUB_OFFLINE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": str(max(os.sched_getaffinity(0))),
}  # fmt: skip  # before vLLM is imported

ANSWERS = os.dup(1)
os.dup2(2, 1)  # what vLLM prints is no answer

from vllm import EngineArgs, SamplingParams  # noqa: E402
from vllm.v1.engine.llm_engine import LLMEngine  # noqa: E402


class Peer:
    """vLLM's engine, and what its scheduler planned last."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        arguments = EngineArgs(
            model=folder, skip_tokenizer_init=True, async_scheduling=False, enable_prefix_caching=False, **options
        )
        self.engine = LLMEngine.from_engine_args(arguments)
        scheduler = self.engine.engine_core.engine_core.scheduler
        plan = scheduler.schedule

        def schedule(*args: Any, **kwargs: Any) -> Any:
            self.planned = plan(*args, **kwargs)
            return self.planned

        scheduler.schedule = schedule

    def serve(self, prompts: list[list[int]], outputs: list[int], arrival_s: list[float]) -> dict[str, Any]:
        """What `Served` of bench/peer.py holds; arrivals ascend."""
        engine, came, steps = self.engine, 0, []
        first_s, end_s = [0.0] * len(prompts), [0.0] * len(prompts)
        tokens: list[list[int]] = [[] for _ in prompts]
        gc.collect()
        zero = before = time.thread_time()
        while came < len(prompts) or engine.has_unfinished_requests():
            while came < len(prompts) and arrival_s[came] <= time.thread_time() - zero:
                sampling = SamplingParams(max_tokens=outputs[came], ignore_eos=True, temperature=0, detokenize=False)
                engine.add_request(str(came), {"prompt_token_ids": prompts[came]}, sampling)
                came += 1
            if not engine.has_unfinished_requests():
                zero -= arrival_s[came] - (time.thread_time() - zero)
                before = time.thread_time()
                continue
            out = engine.step()
            now = time.thread_time()
            counts = list(self.planned.num_scheduled_tokens.values())
            steps.append((sum(count for count in counts if count > 1), counts.count(1), now - before))
            before = now
            for each in out:
                row, got = int(each.request_id), each.outputs[0].token_ids
                if not tokens[row]:
                    first_s[row] = now - zero
                tokens[row] = list(got)
                end_s[row] = now - zero
        return {"steps": steps, "first_s": first_s, "end_s": end_s, "tokens": tokens}


def main(folder: str, options: str) -> None:
    peer = Peer(folder, json.loads(options))
    with os.fdopen(ANSWERS, "w") as answers:
        print(json.dumps({}), file=answers, flush=True)  # ready
        for line in sys.stdin:
            print(json.dumps(peer.serve(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
