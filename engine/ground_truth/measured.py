"""What vLLM did in a recorded run, in the form in which the simulator and the engine leave a run."""

from __future__ import annotations

import numpy as np

from engine.ground_truth.recording import Recording
from engine.validate.steps import Step
from twin.results.record import Record


def measured(recording: Recording) -> Record:
    """Requests in the order of `requests_trace.as_asked`; inter-token times are not in it."""
    requests = sorted(recording.requests, key=lambda row: row.arrival_s)
    first_s: dict[str, float] = {}
    for step in recording.steps:
        for part in step.parts:
            first_s.setdefault(part.request, step.start_s)
    features, steps = recording.features(), recording.steps
    free = np.array([step.free_blocks for step in steps])
    return Record(
        requests={
            "request_id": [row.id for row in requests],
            "arrival_s": [row.arrival_s for row in requests],
            "prompt_tokens": [row.prompt_tokens for row in requests],
            "output_tokens": [row.output_tokens for row in requests],
            "generated_tokens": [row.output_tokens for row in requests],
            "status": ["finished"] * len(requests),
            "first_scheduled_s": [first_s.get(row.id, np.nan) for row in requests],
            "first_token_s": [row.first_token_s for row in requests],
            "finish_s": [row.finish_s for row in requests],
            "cached_tokens": [row.cached_tokens or 0 for row in requests],
            "preemptions": [row.preemptions or 0 for row in requests],
        },
        steps={
            "step": np.arange(1, len(steps) + 1),
            "start_s": [step.start_s for step in steps],
            "duration_s": [step.end_s - step.start_s for step in steps],
            "prefill_tokens": [each.prefill_tokens for each in features],
            "decode_tokens": [each.decode_tokens for each in features],
            "sequences": [each.sequences for each in features],
            "context_tokens": [each.context_tokens for each in features],
            "waiting": [step.waiting for step in steps],
            "running": [step.running for step in steps],
            "used_blocks": recording.settings.limits.num_blocks - free,
            "free_blocks": free,
            "preempted": [len(step.preempted) for step in steps],
        },
        itl_s=np.empty(0),
        itl_count=np.empty(0),
        num_blocks=recording.settings.limits.num_blocks,
        block_size=recording.settings.limits.block_size,
        end_s=max(row.finish_s for row in requests),
    )


def measured_steps(recording: Recording) -> list[Step]:
    """As a latency model is fitted to them, and judged by."""
    rows = zip(recording.features(), recording.steps, recording.durations_s(), strict=True)
    return [Step(features, step.start_s, float(duration_s)) for features, step, duration_s in rows]
