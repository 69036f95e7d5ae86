"""A service's clients, each with its own rate, burstiness and lengths, after ServeGen: Xiang et al., arXiv:2505.09999, 2025.

`clients` is a folder of ServeGen's data or an archive of one (`traces.readers.servegen`); without it, 25 clients of
reason/deepseek-r1, which send 90 % of its requests, by their figures in fits/servegen.json: rates by the hour, one shape
of the gaps each, quantiles of lengths.

A client's requests are a renewal process with gamma or Weibull gaps of mean 1 on the clock of its own expected number of
requests, the integral of its rate, so that rates hold across windows whatever the gaps. Each starts at a random point of
its process: started all at a request, clients with heavy-tailed gaps would make one common burst. Lengths come by
inversion of the distributions of the client's window; prompt and output are independent, as in ServeGen. Behind the last
window the data begins again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traces.generators.fit import Quantiles, figures
from traces.readers.servegen import Client, Histogram, read_clients
from traces.streams import Stream
from traces.trace import Report, Trace

WINDOW_S = 600.0
LEAST_SHAPE = 0.1  # gaps of smaller shapes are almost all 0
PHASE_GAPS = 256


@dataclass(frozen=True, eq=False)
class Flow:
    """One client: `rate` in requests/s, `pattern` and `shape` of its gaps from each of `start_s` on; lengths likewise."""

    name: str
    start_s: np.ndarray
    rate: np.ndarray
    pattern: list[str]
    shape: np.ndarray
    length_start_s: np.ndarray
    prompt: list[Quantiles]
    output: list[Quantiles]

    def end_s(self) -> float:
        """When the last window ends: it is as long as the one before it."""
        return float(2 * self.start_s[-1] - self.start_s[-2]) if len(self.start_s) > 1 else float(self.start_s[0] + WINDOW_S)

    def gaps(self, seed: int, index: np.ndarray, window: int, purpose: str = "gap") -> np.ndarray:
        """The gaps behind the requests `index` of this client, of mean 1, as they are distributed in this window."""
        stream = Stream(seed, f"servegen/{self.name}/{purpose}")
        shape = max(float(self.shape[window]), LEAST_SHAPE)
        if self.pattern[window] == "Gamma":
            return stream.gammas(index, shape) / shape
        if self.pattern[window] == "Weibull":
            return stream.exponentials(index) ** (1 / shape) / math.gamma(1 + 1 / shape)
        return stream.exponentials(index)


class Source:
    """The requests of one client, window after window: `made` so many, and the next one `wait` expected requests on."""

    def __init__(self, flow: Flow, seed: int) -> None:
        self.flow, self.seed, self.made = flow, seed, 0
        busiest = int(np.argmax(flow.rate))
        arrived = np.cumsum(flow.gaps(seed, np.arange(PHASE_GAPS), busiest, "phase"))
        phase = arrived[-1] * Stream(seed, f"servegen/{flow.name}/start").uniforms(np.arange(1))
        self.wait = float(arrived[np.searchsorted(arrived, phase)[0]] - phase[0])

    def window(self, data_s: float, factor: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Seconds since the window's start, prompt and output tokens of the requests in the window from `data_s` on."""
        flow = self.flow
        window = max(int(np.searchsorted(flow.start_s, data_s, side="right")) - 1, 0)
        expected = factor * float(flow.rate[window]) * WINDOW_S
        parts, first = [], self.made
        while self.wait < expected:
            index = self.made + np.arange(math.ceil(1.1 * (expected - self.wait)) + 8)
            times = self.wait + np.concatenate(([0.0], np.cumsum(flow.gaps(self.seed, index, window))))
            count = min(int(np.searchsorted(times, expected)), len(index))
            parts.append(times[:count])
            self.made, self.wait = self.made + count, float(times[count])
        self.wait -= expected
        if not parts:
            return np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        place = max(int(np.searchsorted(flow.length_start_s, data_s, side="right")) - 1, 0)
        index = np.arange(first, self.made)
        prompt, output = (
            lengths[place].tokens(Stream(self.seed, f"servegen/{flow.name}/{purpose}").uniforms(index))
            for lengths, purpose in ((flow.prompt, "prompt"), (flow.output, "output"))
        )
        return np.concatenate(parts) / expected * WINDOW_S, prompt, output


def generate(
    num_requests: int, seed: int, rate: float | None = None, *, clients: str | None = None, start_s: float = 0.0
) -> Trace:
    """`num_requests` requests from the time `start_s` of the data on, whose mean rate `rate` in requests/s replaces."""
    if isinstance(start_s, bool) or not 0 <= start_s < math.inf:
        raise ValueError(f"trace.start_s is {start_s}, must be a number of seconds, not negative")
    flows, notes = built_in() if clients is None else from_files(str(clients))
    end_s = max(flow.end_s() for flow in flows)
    starts = np.arange(0, end_s, WINDOW_S)
    total = sum(flow.rate[np.maximum(np.searchsorted(flow.start_s, starts, "right") - 1, 0)].mean() for flow in flows)
    if not total > 0:
        raise ValueError(f"trace.clients={clients}: its clients send nothing")
    factor = 1.0 if rate is None else rate / float(total)
    sources = [Source(flow, seed) for flow in flows]
    columns: tuple[list[np.ndarray], ...] = ([], [], [], [])  # arrival_s, client, prompt, output
    made, number = 0, 0
    while made < num_requests:
        for client, source in enumerate(sources):
            times, prompt, output = source.window((start_s + number * WINDOW_S) % end_s, factor)
            for column, values in zip(
                columns, (times + number * WINDOW_S, np.full(len(times), client), prompt, output), strict=True
            ):
                column.append(values)
            made += len(times)
        number += 1
    arrival_s, client_of, prompt_tokens, output_tokens = (np.concatenate(column) for column in columns)
    order = np.argsort(arrival_s, kind="stable")[:num_requests]
    names = [flow.name for flow in flows]
    what = "25 clients of deepseek-r1" if clients is None else f"{len(flows)} clients of {clients}"
    return Trace(
        name="servegen",
        arrival_s=arrival_s[order] - arrival_s[order[0]],
        prompt_tokens=prompt_tokens[order],
        output_tokens=output_tokens[order],
        user=[names[client] for client in client_of[order].tolist()],
        report=Report(
            source=f"servegen: {what}, a mean of {rate or total:.4g} requests/s over {end_s / 3600:.4g} h",
            read=num_requests,
            notes=notes,
        ),
    )


def built_in() -> tuple[list[Flow], list[str]]:
    """The clients of fits/servegen.json."""
    fit = figures("servegen")
    start_s = np.arange(24) * 3600.0
    flows = []
    for client in fit["clients"]:
        prompt, output = ([Quantiles.of(fit["levels"], client[name])] for name in ("prompt_tokens", "output_tokens"))
        shape = np.full(24, client["shape"])
        rate = np.array(client["rate"], np.float64)
        flows.append(Flow(client["name"], start_s, rate, [client["pattern"]] * 24, shape, np.zeros(1), prompt, output))
    return flows, []


def from_files(path: str) -> tuple[list[Flow], list[str]]:
    """The clients in a folder or an archive; those without lengths are left out, and a note says so."""
    if not Path(path).exists():
        raise ValueError(f"trace.clients={path}: there is no such file or folder")
    everyone = read_clients(path)
    flows = [flow for flow in map(from_client, everyone) if flow is not None]
    if not flows:
        raise ValueError(
            f"trace.clients={path}: no client has lengths (a chunk-N-dataset.json with input_tokens, output_tokens)"
        )
    lost = len(everyone) - len(flows)
    return flows, [f"{lost} of {len(everyone)} clients left out: no lengths of them in the data"] if lost else []


def from_client(client: Client) -> Flow | None:
    """What the generator needs of a client; None if its lengths are not known."""
    known = {start: fields for start, fields in client.lengths.items() if {"input_tokens", "output_tokens"} <= fields.keys()}
    if not known:
        return None
    prompt, output = ([inverse(fields[name]) for fields in known.values()] for name in ("input_tokens", "output_tokens"))
    starts = np.array(list(known), np.float64)
    return Flow(client.name, client.start_s, client.rate, client.pattern, client.shape, starts, prompt, output)


def inverse(histogram: Histogram) -> Quantiles:
    """The quantile function of a histogram: steps, none between the values."""
    reached = np.minimum(np.cumsum(histogram.probabilities), 1.0)
    reached[-1] = 1.0
    levels = np.stack((np.concatenate(([0.0], reached[:-1])), reached), axis=1).ravel()
    return Quantiles(levels, np.repeat(histogram.values, 2))
