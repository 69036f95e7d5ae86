"""What a policy costs vLLM's scheduler: a step with `engine.vllm` against one of plain vLLM, in the same minute.

    PYTHONPATH=VLLM python -m bench.vllm_overhead [--waiting 10 1000 10000] [--steps 300] [--rounds 5]

vLLM's own Scheduler, no model: 64 seats, all taken, and so many requests waiting of 27 users, prompts of 32 tokens, outputs
of 64 on average. Predictions are drawn apart from the lengths: else a policy would have another mix of requests in its
steps, and its cost could not be told from theirs. A step is `schedule()` and `update_from_output()`; for each request that
ends another one comes, which is counted too, so that as many wait all the time. CPU time; the schedulers take turns, step by
step, so that all see the same disturbances; a round is the mean over its steps, and the best round of each counts. "×" is
that over plain vLLM's. `fcfs` decides nothing and leaves vLLM as it is: what it differs by is noise.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from pathlib import Path
from random import Random
from typing import Any

from engine.oracle.build import make_output, make_request, make_scheduler
from engine.oracle.versions import installed
from twin.sim.scenario_file import Scenario, ScenarioRequest, read_scenario

SEATS, PROMPT, USERS = 64, 32, 27
POLICIES = ("fcfs", "sjf", "srpt", "vtc")
PLAIN = "plain vLLM"


class Server:
    """One scheduler with so many waiting; its requests come from a stream that is the same for all."""

    def __init__(self, scenario: Scenario, policy: str | None, waiting: int) -> None:
        from engine.vllm import TwinScheduler

        self.scenario, self.rng, self.made, self.now_s = scenario, Random(waiting), 0, 0.0
        configuration = None if policy is None else {"twin": {"policy": policy}}
        self.scheduler = make_scheduler(scenario, policy and TwinScheduler, configuration)
        if policy is not None:
            self.scheduler.clock = lambda: self.now_s
        for _ in range(waiting + SEATS):
            self.arrives()

    def arrives(self) -> None:
        self.scheduler.add_request(self.new_request())

    def new_request(self) -> Any:
        self.made += 1
        tokens = self.rng.randint(1, 127)
        row = ScenarioRequest(f"r{self.made}", self.now_s, PROMPT, tokens)
        extra = {"twin_user": f"u{self.rng.randrange(USERS)}", "twin_predicted_output": self.rng.randint(1, 127)}
        return make_request(self.scenario, row, [1000 * self.made + place for place in range(PROMPT)], tokens, extra)

    def step(self) -> float:
        """CPU seconds of one step, and of the arrivals that take the place of who ended."""
        scheduler = self.scheduler
        self.now_s += 0.02
        started = time.process_time()
        planned = scheduler.schedule()
        seconds = time.process_time() - started
        names = list(planned.num_scheduled_tokens)
        requests = [scheduler.requests[name] for name in names]
        tokens = [[5] if request.num_computed_tokens >= request.num_tokens else [] for request in requests]
        output = make_output(names, tokens)
        started = time.process_time()
        told = scheduler.update_from_output(planned, output)
        seconds += time.process_time() - started
        ended = sum(line.finish_reason is not None for line in (told[0].outputs if 0 in told else ()))
        coming = [self.new_request() for _ in range(ended)]
        started = time.process_time()
        for request in coming:
            scheduler.add_request(request)
        return seconds + time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    content = {
        "cache": {"num_gpu_blocks": 4096, "block_size": 16},
        "scheduler": {"max_num_seqs": SEATS, "max_num_batched_tokens": 2048},
        "requests": [{"prompt_tokens": 1, "output_tokens": 1}],
    }
    scenario = read_scenario(content, "bench")
    print(f"vLLM {installed()}, Python {platform.python_version()}, {processor()}\n")
    print("| waiting | " + " | ".join(f"{name} µs | ×" for name in (PLAIN, *POLICIES)).replace(" | ×", "", 1) + " |")
    print("|--:|" + "--:|" * (1 + 2 * len(POLICIES)))
    for waiting in options.waiting:
        print(f"| {waiting:,} | {' | '.join(measured(scenario, waiting, options.steps, options.rounds))} |", flush=True)


def measured(scenario: Scenario, waiting: int, steps: int, rounds: int) -> list[str]:
    """Microseconds of a step under plain vLLM; under each policy, and the quotient."""
    servers = {PLAIN: Server(scenario, None, waiting)} | {name: Server(scenario, name, waiting) for name in POLICIES}
    best = dict.fromkeys(servers, float("inf"))
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        took = dict.fromkeys(servers, 0.0)
        for _ in range(steps):
            for name, server in servers.items():
                took[name] += server.step()
        best = {name: min(best[name], took[name] / steps) for name in servers}
    gc.enable()
    cells = [f"{best[PLAIN] * 1e6:.0f}"]
    for name in POLICIES:
        cells += [f"{best[name] * 1e6:.0f}", f"{best[name] / best[PLAIN]:.2f}"]
    return cells


def processor() -> str:
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
