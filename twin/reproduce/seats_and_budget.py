"""`max_num_seqs` x `max_num_batched_tokens` of a 14B model on one A100, and what the published table says of itself.

Two checks need no simulator. Little's law: requests/s <= seats / residence, and residence >= (outputs - 1) x TPOT. And
arithmetic: prompts/s x tokens x 2 operations a parameter cannot exceed what the device multiplies.
"""

from itertools import pairwise
from typing import Any

from twin.reproduce.experiment import Experiment
from twin.reproduce.result import Figure, near
from twin.reproduce.running import simulate, summary_of

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 256  # as they were told
ALIKE = 0.25


def most_requests_per_s(seats: int, tpot_s: float, output_tokens: int = OUTPUT_TOKENS) -> float:
    """What so many seats can finish a second when each token takes so long (Little, 1961)."""
    return seats / ((output_tokens - 1) * tpot_s)


def run(experiment: Experiment) -> list[Figure]:
    """Each published setting as it was told, and with the shorter requests that its own figures ask for."""
    rows, values = experiment.published["rows"], experiment.values
    new = values["new_tokens"]
    told = {"trace.prompt_tokens": PROMPT_TOKENS, "trace.output_tokens": OUTPUT_TOKENS}
    read = {"trace.prompt_tokens": new, "trace.output_tokens": values["short_tokens"]}
    read |= {"trace.prefix_tokens": PROMPT_TOKENS - new}
    seats = [_setting(experiment, row[0], row[1]) for row in rows]
    measured = simulate(
        experiment, [setting | told for setting in seats] + [setting | read for setting in seats], summary_of
    )
    return [
        *_figures(rows, measured[: len(rows)], "as told"),
        *_figures(rows, measured[len(rows) :], f"outputs of {values['short_tokens']}, prompts cached"),
        *_contradictions(rows),
    ]


def _setting(experiment: Experiment, seats: int, budget: int) -> dict[str, Any]:
    clients = round(seats * experiment.values["clients_per_seat"])
    return {
        "scheduler.max_num_seqs": seats,
        "scheduler.max_num_batched_tokens": budget,
        "trace.arrivals": f"closed({clients},think=0)",
        "trace.num_requests": experiment.values["requests"],
        "warmup_requests": experiment.values["requests"] // 5,
    }


def _figures(rows: list[list[float]], measured: list[dict[str, Any]], how: str) -> list[Figure]:
    figures = []
    grows, slows = (_grows(measured, key) for key in ("request_throughput", "tpot_s_p50"))
    for (seats, budget, rate, tpot_ms, ttft_s), summary in zip(rows, measured, strict=True):
        at = f"{seats} seats, budget {budget}, {how}"
        ours, ours_ms = summary["request_throughput"], summary["tpot_s_p50"] * 1e3
        figures += [
            Figure(f"{at}: throughput", f"{rate:g} req/s", f"{ours:.1f} req/s", grows, near(ours, rate, ALIKE)),
            Figure(f"{at}: TPOT p50", f"{tpot_ms:g} ms", f"{ours_ms:.1f} ms", slows, near(ours_ms, tpot_ms, ALIKE)),
            Figure(f"{at}: TTFT p99", f"{ttft_s:g} s", f"{summary['ttft_s_p99']:.2f} s", None, None),
        ]
    return figures


def _grows(measured: list[dict[str, Any]], key: str) -> bool:
    return all(after[key] > before[key] for before, after in pairwise(measured))


def _contradictions(rows: list[list[float]]) -> list[Figure]:
    """What the published TPOT allows at most by Little's law, beside the published rate."""
    return [
        Figure(
            f"{seats:g} seats: most that {tpot_ms:g} ms a token allow",
            f"{rate:g} req/s",
            f"{most_requests_per_s(int(seats), tpot_ms / 1e3):.1f} req/s",
            None,
            None,
        )
        for seats, _, rate, tpot_ms, _ in rows
    ]
