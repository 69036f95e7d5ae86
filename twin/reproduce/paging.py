"""Paged against contiguous KV caches: how many requests fit, what of the memory holds tokens, which rate is sustained."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twin.cli.errors import UserError
from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near, within
from twin.reproduce.running import simulate
from twin.reproduce.sustained import sustained_rates

if TYPE_CHECKING:
    from twin.notebook import Run

SLOTS, BLOCK_SIZE = 15_700, 16  # tokens
WARM_UP = 0.2  # of the time of the arrivals, until the memory is full
ALIKE = 0.2
ORCA = {"policy": "orca", "predictor": "oracle", "policy.buddy": True}
ORCA |= {"cache.allocator": "contiguous", "cache.block_size": 1, "cache.num_gpu_blocks": SLOTS}
SERVERS: dict[str, dict[str, Any]] = {
    **{reserve: {**ORCA, "policy.reserve": reserve} for reserve in ("max", "pow2", "oracle")},
    "paged": {"cache.block_size": BLOCK_SIZE, "cache.num_gpu_blocks": SLOTS // BLOCK_SIZE},
}
NAMES = {"max": "Orca (Max)", "pow2": "Orca (Pow2)", "oracle": "Orca (Oracle)", "paged": "paged"}


def load_of(run: "Run") -> tuple[float, float]:
    """Requests in the mean iteration, and per cent of the slots that hold tokens, while requests arrive.

    Both of the iterations that compute no prompt: in those that do, vLLM V0 computes for no one else, whoever is there.
    """
    steps, end_s = run.steps, run.requests.arrival_s.max()
    steps = steps[(steps.start_s >= WARM_UP * end_s) & (steps.start_s < end_s) & (steps.prefill_tokens == 0)]
    if steps.empty:
        raise UserError(f"requests: {len(run.requests)} are too few: no step without a prompt lies between their arrivals")
    batch = (steps.sequences * steps.repeat).sum() / steps.repeat.sum()
    tokens = (steps.context_tokens * steps.duration_s).sum() / steps.duration_s.sum()
    return float(batch), float(100 * tokens / SLOTS)


def run(experiment: Experiment) -> list[Figure]:
    """Batches and memory at the published rate, and the rates that are sustained."""
    return [*loads(experiment), *rates(experiment)]


def loads(experiment: Experiment) -> list[Figure]:
    """All at the published rate, and paging at one that fills its memory too."""
    values, published = experiment.values, experiment.published
    servers = [*_servers(experiment), SERVERS["paged"]]
    requests_per_s = [values["rate"]] * len(SERVERS) + [values["full_rate"]]
    variants = [{**server, "trace.rate": rate} for server, rate in zip(servers, requests_per_s, strict=True)]
    measured = simulate(experiment, variants, load_of)
    batches, shares = zip(*measured, strict=True)
    full = f"paged, {values['full_rate']:g} req/s"
    return [
        *_row("requests in a batch", published["batch"], batches, full, ""),
        *_row("memory that holds tokens", published["token_share"], shares, full, " %"),
    ]


def rates(experiment: Experiment) -> list[Figure]:
    """How many times the rate of Orca paging sustains."""
    values, published = experiment.values, experiment.published
    found = sustained_rates(experiment, _servers(experiment), values["bounds"], values["limit_s"], values["halvings"])
    rate = dict(zip(SERVERS, found, strict=True))
    return [_times(other, rate, published[f"more_than_{other}"]) for other in ("oracle", "max")]


def _servers(experiment: Experiment) -> list[dict[str, Any]]:
    return [{**server, "trace.num_requests": experiment.values["requests"]} for server in SERVERS.values()]


def _row(what: str, theirs: dict[str, float], ours: Sequence[float], full: str, unit: str) -> list[Figure]:
    """One figure a server, and the last one for paging that is full; each is to be more than all Orcas before it."""
    figures, digits = [], 1 if unit else 2
    for place, (name, value) in enumerate(zip([*SERVERS, "paged"], ours, strict=True)):
        grows = value < ours[1] if place == 0 else value > max(ours[: min(place, 3)])
        label = full if place == len(SERVERS) else NAMES[name]
        theirs_told, ours_told = (f"{number:.{digits}f}{unit}" for number in (theirs[name], value))
        figures.append(Figure(f"{what}, {label}", theirs_told, ours_told, grows, near(value, theirs[name], ALIKE)))
    return figures


def _times(other: str, rate: dict[str, float], theirs: list[float]) -> Figure:
    times = rate["paged"] / rate[other]
    ours = f"{times:.2f}x ({rate['paged']:.2f}, {rate[other]:.2f} req/s)"
    what = f"rate sustained, paged over {NAMES[other]}"
    return Figure(what, f"{theirs[0]:g}-{theirs[1]:g}x", ours, times > 1, within(times, theirs))
