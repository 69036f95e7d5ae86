"""A log of requests that a real system served: what came when, how long it was, and the stamps of its life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

STAMPS = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "finish_s")  # in the order in which they must come
COLUMNS = ("request_id", "arrival_s", "prompt_tokens", "output_tokens", *STAMPS[1:])
REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens", "first_token_s", "finish_s")
LATE_S = 1e-3  # so much may a stamp come before the one it follows: they are rounded, and taken by several threads
# Nobody serves a token in less, and nobody waits for one longer: such columns are in another unit than seconds.
SHORTEST_TOKEN_S, LONGEST_TOKEN_S = 2e-5, 5.0
FEWEST = 10  # requests with all stamps


@dataclass(frozen=True, eq=False)
class RequestLog:
    """Requests in order of arrival; seconds since the first arrival, nan where a stamp is empty.

    A request without its last two stamps loads the simulated system, and is not fitted.
    """

    source: str
    request_id: list[str]
    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    queued_s: np.ndarray
    scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    prompt_ids: Sequence[Sequence[int]] | None = None
    notes: list[str] = field(default_factory=list)
    start_s: float = 0.0  # the first arrival on the clock of the file

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def stamped(self) -> np.ndarray:
        """Which requests can be fitted: bool, one a request."""
        return np.isfinite(self.first_token_s) & np.isfinite(self.finish_s)

    @property
    def ttft_s(self) -> np.ndarray:
        return self.first_token_s - self.arrival_s

    @property
    def decode_s(self) -> np.ndarray:
        """From the first token to the last."""
        return self.finish_s - self.first_token_s

    @property
    def e2e_s(self) -> np.ndarray:
        return self.finish_s - self.arrival_s

    @property
    def tpot_s(self) -> np.ndarray:
        """nan for a request of one token."""
        gaps = self.output_tokens - 1
        return np.where(gaps > 0, self.decode_s / np.maximum(gaps, 1), np.nan)


def make_log(
    source: str, columns: dict[str, np.ndarray], ids: list[str], rows: list[int], prompt_ids: Sequence[Sequence[int]] | None
) -> RequestLog:
    """The log, sorted and put on its own clock. `columns` by the names of COLUMNS, as read; `rows` are rows of the file.

    Raises ValueError, in one line, for what no log can hold.
    """
    values = {name: columns.get(name, np.full(len(rows), np.nan)) for name in COLUMNS[1:]}
    notes = on_one_clock(source, values)
    check_order(source, values, rows)
    check_units(source, values)
    order = np.argsort(values["arrival_s"], kind="stable")
    start_s = values["arrival_s"][order[0]]
    stamps = {name: values[name][order] - start_s for name in STAMPS}
    lengths = {name: values[name][order].astype(np.int64) for name in ("prompt_tokens", "output_tokens")}
    contents = None if prompt_ids is None else [prompt_ids[row] for row in order]
    log = RequestLog(
        source, [ids[row] for row in order], **lengths, **stamps, prompt_ids=contents, notes=notes, start_s=float(start_s)
    )
    fitted = int(log.stamped.sum())
    if fitted < FEWEST:
        raise ValueError(
            f"{source}: {fitted} requests with first_token_s and finish_s; a calibration needs {FEWEST} or more, better 100"
        )
    if fitted < len(log):
        notes.append(f"{len(log) - fitted:,} of {len(log):,} requests have empty stamps: they load the system, unfitted")
    return log


def on_one_clock(source: str, values: dict[str, np.ndarray]) -> list[str]:
    """Shifts stamps of an engine's own clock (vLLM: monotonic, arrivals: of the day) to that of the arrivals.

    The least delay between arrival and queue is taken for none. Says so; raises ValueError where it cannot be done.
    """
    lag = values["first_token_s"] - values["arrival_s"]
    if not np.isfinite(lag).any() or 0 <= np.nanmedian(lag) < 86400:
        return []
    between = values["queued_s"] - values["arrival_s"]
    if not np.isfinite(between).any():
        raise ValueError(
            f"{source}: first_token_s is {np.nanmedian(lag):,.6g} s after arrival_s: two clocks, or two units; give "
            "queued_s on the clock of the stamps, or arrivals on the same"
        )
    shift_s = np.nanmin(between)
    for name in STAMPS[1:]:
        values[name] = values[name] - shift_s
    return ["arrivals are on another clock than the stamps; the two are joined at the shortest way from arrival to queue"]


def check_order(source: str, values: dict[str, np.ndarray], rows: list[int]) -> None:
    """Every stamp after those before it."""
    latest, of = values["arrival_s"].copy(), np.full(len(rows), "arrival_s", object)
    for name in STAMPS[1:]:
        early = np.flatnonzero(values[name] < latest - LATE_S)
        if len(early):
            row = early[0]
            raise ValueError(
                f"{source}, row {rows[row]}: {name} is {latest[row] - values[name][row]:.6g} s before {of[row]}; the "
                f"order is {', '.join(STAMPS)}"
            )
        given = np.isfinite(values[name])
        latest, of = np.where(given, values[name], latest), np.where(given, name, of)


def check_units(source: str, values: dict[str, np.ndarray]) -> None:
    """Milliseconds taken for seconds, and the like, show in the time a token takes."""
    tokens = values["output_tokens"] - 1
    each = (values["finish_s"] - values["first_token_s"])[tokens > 0] / tokens[tokens > 0]
    if not np.isfinite(each).any():
        return
    typical = np.nanmedian(each)
    if not SHORTEST_TOKEN_S < typical < LONGEST_TOKEN_S:
        raise ValueError(
            f"{source}: a token takes {typical:.3g} s (median of (finish_s - first_token_s) / (output_tokens - 1)), which "
            "no server does; are the stamps in another unit? columns=finish_ms:NAME reads milliseconds"
        )
    wait_s = np.nanmedian(values["first_token_s"] - values["arrival_s"])
    if wait_s < 1e-5:
        raise ValueError(f"{source}: the first token comes {wait_s:.3g} s after the arrival, which no server does")
