"""Textbook traces: any arrival process with any distributions of lengths, for theory and for stress."""

import numpy as np

from traces import arrivals as arrival_processes
from traces.distributions import distribution
from traces.prefix import Prefix
from traces.streams import Stream
from traces.trace import Report, Trace


def generate(
    num_requests: int,
    seed: int,
    rate: float | None = None,
    *,
    arrivals: str | float = "poisson(5)",
    prompt_tokens: str | float = "uniform(500,1500)",
    output_tokens: str | float = "uniform(100,400)",
    priority: str | float | None = None,
    prefix_groups: int | None = None,
    prefix_tokens: int | None = None,
) -> Trace:
    """`num_requests` requests; expressions as in `traces.arrivals` and `traces.distributions`.

    With `prefix_tokens` each prompt begins with that many tokens which it shares with all requests of its group, one
    of `prefix_groups` (default 1) with equal probability; `prompt_tokens` is then the length of what follows, so that
    a prompt is prefix_tokens + prompt_tokens long. `rate` is left to `Trace.rescaled`.
    """
    index = np.arange(num_requests)
    process = arrival_processes.arrivals(arrivals)
    prompt = distribution(prompt_tokens, "trace.prompt_tokens").sample(Stream(seed, "prompt"), index)
    output = distribution(output_tokens, "trace.output_tokens").sample(Stream(seed, "output"), index)
    urgency = None
    if priority is not None:
        urgency = distribution(priority, "trace.priority", least=None).sample(Stream(seed, "priority"), index)
    prefix = shared_prefix(prefix_groups, prefix_tokens, seed, prompt)
    source = f"synthetic: arrivals {arrivals}, prompts {prompt_tokens}, outputs {output_tokens}"
    return Trace(
        name="synthetic",
        arrival_s=process.times(Stream(seed, "arrival"), num_requests),
        prompt_tokens=prompt if prefix is None else prefix.prompt_tokens,
        output_tokens=output,
        priority=urgency,
        prefix=prefix,
        closed=process.closed(),
        report=Report(source=source, read=num_requests),
    )


def shared_prefix(groups: int | None, tokens: int | None, seed: int, follows: np.ndarray) -> Prefix | None:
    """Who shares: one content id, the group's number, which stands for all of the first `tokens` tokens."""
    if tokens is None:
        if groups is not None:
            raise ValueError("trace.prefix_groups needs trace.prefix_tokens, the length of the shared prefixes")
        return None
    groups = 1 if groups is None else groups
    for name, value in (("prefix_groups", groups), ("prefix_tokens", tokens)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"trace.{name} is {value}, must be an integer of at least 1")
    index = np.arange(len(follows))
    group = np.floor(Stream(seed, "prefix").uniforms(index) * groups).astype(np.int64)
    return Prefix(tokens, group, np.arange(len(follows) + 1), follows + tokens)
