"""KV blocks that samples of one prompt, and beams of one search, share instead of having each of its own.

A request is played by the scheduler's core alone, one step a token, with room and seats enough: what its sequences share
does not hang on what else runs. All requests count by their blocks and steps. Saved are the entries of its sequences' block
tables beyond the first to each block, in per cent of all entries (section 6.3 of the paper).

In beam search the search says which beam each new one continues, and so what they share. No model is at hand, so parents
are drawn: each beam continues any of the beams, all equally likely. Two rules bound what any search can do: each beam goes
on from itself for ever, and shares what samples share; or all go on from one, and differ in their newest block alone.
"""

from collections.abc import Callable, Iterator

import numpy as np

from twin.cli.errors import UserError
from twin.core.beams import Beams
from twin.core.limits import Limits
from twin.core.request import Request
from twin.core.scheduler import Scheduler
from twin.policy import Policy
from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near, within

ALIKE = 0.25
MOST_TOKENS = 2048  # of prompt and output, OPT's
Parents = Callable[[int], list[int]]  # how many beams there are; for each new one the beam that it continues


def run(experiment: Experiment) -> list[Figure]:
    """Samples, then beams, of requests of Alpaca's and of ShareGPT's lengths."""
    return [figure for data in experiment.published for figure in figures_of(experiment, data)]


def figures_of(experiment: Experiment, data: str) -> list[Figure]:
    """One data set's."""
    published, values = experiment.published[data], experiment.values
    means = values["mean_tokens"][data]
    if len(means) != 2 or not all(1 < mean < MOST_TOKENS for mean in means):
        raise UserError(
            f"mean_tokens: {means} of {data}; must be of prompts and of outputs, above 1 and below {MOST_TOKENS}"
        )
    if values["block_size"] > MOST_TOKENS:
        raise UserError(f"block_size: {values['block_size']} is more than the {MOST_TOKENS} tokens of the longest request")
    prompt_mean, output_mean = means
    lengths = lengths_of(prompt_mean, output_mean, values["requests"][data], values["seed"])
    block_size = values["block_size"]
    draws = np.random.default_rng(values["seed"])
    figures: list[Figure] = []
    before = 0.0
    samples = {}
    for width, theirs in published["samples"].items():
        samples[width] = ours = 100 * saving(lengths, width, block_size)
        figures.append(_figure(f"{data}, {width} samples", theirs, ours, before))
        before = ours
    before = 0.0
    for beams, theirs in published["beams"].items():
        ours = 100 * saving(lengths, beams, block_size, lambda count: draws.integers(count, size=count).tolist())
        least = samples[beams]  # each beam goes on from itself
        most = 100 * saving(lengths, beams, block_size, lambda count: [0] * count)
        figures.append(_figure(f"{data}, {beams} beams, parents drawn", theirs, ours, before))
        bounds = Figure(
            f"{data}, {beams} beams, least and most of any search",
            f"{theirs:.1f} %",
            f"{least:.1f}-{most:.1f} %",
            None,
            within(theirs, (least, most)),
        )
        figures.append(bounds)
        before = ours
    return figures


def _figure(what: str, theirs: float, ours: float, before: float) -> Figure:
    return Figure(what, f"{theirs:.1f} %", f"{ours:.1f} %", ours > before, near(ours, theirs, ALIKE))


def lengths_of(prompt_mean: float, output_mean: float, requests: int, seed: int) -> list[tuple[int, int]]:
    """Prompt and output tokens, geometric (the discrete exponential) with these means, paired at random.

    Of each the middles of equally likely parts are taken, so that few requests stand for the whole distribution; what is
    longer than the model can hold is cut.
    """
    parts = (np.arange(requests) + 0.5) / requests
    prompts, outputs = (np.ceil(np.log1p(-parts) / np.log1p(-1 / mean)).astype(int) for mean in (prompt_mean, output_mean))
    prompts = np.random.default_rng(seed).permutation(np.minimum(prompts, MOST_TOKENS // 2))
    return list(zip(prompts.tolist(), np.minimum(outputs, MOST_TOKENS - prompts).tolist(), strict=True))


def saving(lengths: list[tuple[int, int]], width: int, block_size: int, parents: Parents | None = None) -> float:
    """The share of blocks that is saved over all requests (prompt, output) and steps; `parents` makes beams of samples."""
    saved = total = 0
    for prompt, output in lengths:
        for held, without in blocks_of(prompt, output, width, block_size, parents):
            saved, total = saved + without - held, total + without
    return saved / total


def blocks_of(
    prompt: int, output: int, width: int, block_size: int, parents: Parents | None = None
) -> Iterator[tuple[int, int]]:
    """In each step that decodes: blocks held, and entries of all block tables."""
    limits = Limits(
        num_blocks=width * (-(-(prompt + output) // block_size) + 1),
        block_size=block_size,
        max_num_seqs=width,
        max_num_batched_tokens=max(prompt, width),
    )
    scheduler = Scheduler(limits, Policy())
    request = Request("A", 0.0, prompt, output, samples=width)
    if parents is not None:
        draw = parents
        request.beams = Beams(lambda members: draw(len(members)), lambda others: None)
    refused = scheduler.add(request)
    assert refused is None, refused
    state, pool = scheduler.state, scheduler.state.pool
    scheduler.plan(0.0)  # the prompt
    scheduler.commit(0.0)
    while scheduler.busy:
        scheduler.plan(0.0)
        yield pool.num_blocks - pool.num_free, state.table_blocks
        scheduler.commit(0.0)
