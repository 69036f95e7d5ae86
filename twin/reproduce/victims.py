"""Preemption by recomputation: what of all work is done twice, and how much less if those who lose least are taken."""

from typing import TYPE_CHECKING, NamedTuple

from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near, within
from twin.reproduce.running import simulate

if TYPE_CHECKING:
    from twin.notebook import Run

ALIKE = 0.2


class Waste(NamedTuple):
    """Tokens computed again after preemptions, and tokens that the requests needed."""

    again: int
    needed: int

    @property
    def share(self) -> float:
        """Per cent of the needed ones."""
        return 100 * self.again / self.needed


def waste_of(run: "Run") -> Waste:
    """A request needs its prompt and its outputs."""
    requests = run.requests
    needed = requests.prompt_tokens.sum() + requests.generated_tokens.sum()
    return Waste(int(requests.recomputed_tokens.sum()), int(needed))


def run(experiment: Experiment) -> list[Figure]:
    """Shares over pool sizes, then victims."""
    return [*shares(experiment), *victims(experiment)]


def shares(experiment: Experiment) -> list[Figure]:
    """Requests that are all alike, in ever smaller pools; the last come is the victim, as in vLLM."""
    values, published = experiment.values, experiment.published["recomputed"]
    load = {
        "trace.num_requests": values["alike_requests"],
        "trace.prompt_tokens": values["alike_prompt_tokens"],
        "trace.output_tokens": values["alike_output_tokens"],
    }
    wastes = simulate(experiment, [{**load, "cache.num_gpu_blocks": blocks} for blocks in published], waste_of)
    figures: list[Figure] = []
    before = None
    for (blocks, theirs), waste in zip(published.items(), wastes, strict=True):
        ours = waste.share
        grows = None if before is None else ours > before
        what = f"computed again, {blocks} blocks"
        figures.append(Figure(what, f"{theirs:g} %", f"{ours:.0f} %", grows, near(ours, theirs, ALIKE)))
        before = ours
    return figures


def victims(experiment: Experiment) -> list[Figure]:
    """Least computed against last come, over mixes of requests and pool sizes."""
    values, (least, most) = experiment.values, experiment.published["less_waste"]
    cases = [(mix, blocks) for mix in values["mixes"] for blocks in values["mixed_blocks"]]
    variants = [
        {
            "trace.num_requests": values["mixed_requests"],
            "trace.prompt_tokens": values["mixes"][mix],
            "cache.num_gpu_blocks": blocks,
            "policy.victim": victim,
        }
        for mix, blocks in cases
        for victim in ("last", "least_computed")
    ]
    wastes = iter(simulate(experiment, variants, waste_of))
    figures = []
    for mix, blocks in cases:
        last, least_computed = next(wastes), next(wastes)
        saved = 100 * (1 - least_computed.again / last.again) if last.again else 0.0
        ours = f"{saved:.0f} % ({last.share:.1f} to {least_computed.share:.1f} % of the tokens)"
        alike = within(saved, (least, most), ALIKE)
        figures.append(Figure(f"less waste, {mix}, {blocks} blocks", f"{least:g}-{most:g} %", ours, saved > 0, alike))
    return figures
