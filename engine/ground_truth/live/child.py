"""The process of vLLM: `python -m engine.ground_truth.live.child JOB.json`, in an environment that has vLLM.

Orders come on standard input, a JSON object a line; what becomes of them is told on the job's descriptor.

    {"play": NAME, "requests": FILE, "to": FOLDER or null, "settings": {...}}    plays in real time; writes a recorded run
    {"quit": true}

When standard input ends before that, whoever gave the orders is gone: the process ends itself and vLLM's engine with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from engine.ground_truth.live.recorder_files import write_run
from engine.ground_truth.live.scheduler import ARRIVAL, CLOCK, CPU, FLUSH, OF, STEP_LOG, WALL

SOON_S = 0.1  # from the order to the first moment of a run
LOG_WAIT_S = 60.0


class Orders:
    """Lines of standard input, read by a thread of their own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.queue = loop, asyncio.Queue[dict[str, Any]]()
        self.quitting = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            self.quitting = "quit" in order
            self.loop.call_soon_threadsafe(self.queue.put_nowait, order)
        if not self.quitting:
            os.killpg(0, signal.SIGKILL)  # a session of its own: see process.py


class Session:
    """One vLLM, and what it is asked to play."""

    def __init__(self, job: dict[str, Any], tell: TextIO) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self.tell_to = tell
        self.clock = os.environ.get(CLOCK, WALL)
        self.engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**job["engine"]))

    def tell(self, **event: Any) -> None:
        print(json.dumps(event), file=self.tell_to, flush=True)

    async def serve(self, orders: Orders) -> None:
        self.tell(ready=_versions())
        while True:
            order = await orders.queue.get()
            if "quit" in order:
                return
            await self.play(order)

    async def play(self, order: dict[str, Any]) -> None:
        rows = json.loads(Path(order["requests"]).read_text(encoding="utf-8"))
        await self.engine.reset_prefix_cache()
        t0_s = time.monotonic() + SOON_S
        if self.clock == CPU:  # the scheduler lets them in, each at its time
            await asyncio.gather(*(self._held(row, len(rows)) for row in rows))
        else:
            await asyncio.gather(*(self._request(row, t0_s) for row in rows))
        log = await self._log()
        if order["to"] is not None:
            settings = order["settings"] | _versions() | {"clock": self.clock}
            write_run(Path(order["to"]), log, rows, 0.0 if self.clock == CPU else t0_s, settings)
        self.tell(played=order["play"])

    async def _request(self, row: dict[str, Any], t0_s: float) -> None:
        await asyncio.sleep(max(0.0, t0_s + row["arrival_s"] - time.monotonic()))
        async for _ in self._answer(row["id"], row["prompt_ids"], row["output_tokens"], row["extra_args"], row["priority"]):
            row["client_finish_s"] = time.monotonic() - t0_s
            row.setdefault("client_first_token_s", row["client_finish_s"])

    async def _held(self, row: dict[str, Any], of: int) -> None:
        extra = (row["extra_args"] or {}) | {ARRIVAL: row["arrival_s"], OF: of}
        async for _ in self._answer(row["id"], row["prompt_ids"], row["output_tokens"], extra, row["priority"]):
            pass

    def _answer(self, name: str, prompt: list[int], tokens: int, extra: dict[str, Any] | None, priority: int = 0) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            max_tokens=tokens, ignore_eos=True, temperature=0, detokenize=False, extra_args=extra,
            output_kind=RequestOutputKind.DELTA,
        )  # fmt: skip
        return self.engine.generate({"prompt_token_ids": prompt}, sampling, request_id=name, priority=priority)

    async def _log(self) -> dict[str, Any]:
        """What the scheduler has seen since the last time: it writes when this request has ended."""
        path = Path(os.environ[STEP_LOG])
        async for _ in self._answer(FLUSH, [1], 1, {"twin_predicted_output": 1}):
            pass
        until_s = time.monotonic() + LOG_WAIT_S
        while not path.exists():
            if time.monotonic() > until_s:
                raise TimeoutError(f"the scheduler has not written {path} within {LOG_WAIT_S:g} s")
            await asyncio.sleep(0.01)
        log: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
        return log


def _versions() -> dict[str, str]:
    import platform

    import torch
    import vllm

    return {"vllm": vllm.__version__, "torch": torch.__version__, "python": platform.python_version()}


async def _main(job: dict[str, Any]) -> None:
    orders = Orders(asyncio.get_running_loop())  # first: from now on nobody is left behind
    with open(job["events"], "w", encoding="utf-8") as tell:
        session = Session(job, tell)
        try:
            await session.serve(orders)
        finally:
            session.engine.shutdown()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
