"""pool.html: the block pool, step by step, to play, stop and step through.

A *frame* is a step as the decision log tells it (docs/scenarios.md) with what the pool looks like after it: see `Frame`.
assets/pool.js draws it; nothing is left out and nothing is invented there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from twin.results import page
from twin.results.charts import data_block

MOST_BLOCKS = 4096  # of a pool that can be shown
MOST_FRAMES = 2000
MOST_ENTRIES = 400_000  # of block tables, all frames together: some 2 MB


@dataclass(frozen=True)
class Holder:
    """A sequence that holds blocks after a step."""

    state: str  # running, swapped, paused
    prompt: int  # tokens
    generated: int  # tokens
    computed: int  # tokens whose KV is written, or is being written by a step in flight
    table: list[int | None]  # device blocks; None where a block lies on the host
    host: dict[int, int] = field(default_factory=dict)  # place in the table -> host block


@dataclass(frozen=True)
class Frame:
    """A step and the pool after it."""

    step: Mapping[str, Any]  # the step's line of the decision log
    holders: Mapping[str, Holder]
    waiting: Sequence[str]
    cached: Sequence[int]  # free blocks that still hold content which can be found, the next to be given out first
    free: int  # free blocks, the cached ones among them

    def plain(self) -> dict[str, Any]:
        """As JSON can say it; tables are those of the holders."""
        shown = {key: value for key, value in self.step.items() if key not in ("block_tables", "ref_counts", "free_blocks")}
        holders = {name: asdict(holder) for name, holder in self.holders.items()}
        return {**shown, "holders": holders, "waiting": list(self.waiting), "cached": list(self.cached), "free": self.free}


class Frames:
    """Takes frames as long as they can be shown; what comes after is counted."""

    def __init__(self, most_frames: int = MOST_FRAMES, most_entries: int = MOST_ENTRIES) -> None:
        self.kept: list[Frame] = []
        self.left_out = 0
        self._room, self._entries = most_frames, most_entries

    @property
    def full(self) -> bool:
        return bool(self.left_out) or len(self.kept) >= self._room or self._entries <= 0

    def add(self, frame: Frame) -> None:
        """Keeps the frame, or counts it where there is no more room."""
        if self.full:
            self.left_out += 1
            return
        self.kept.append(frame)
        self._entries -= sum(len(holder.table) for holder in frame.holders.values()) + len(frame.cached)


def pool_html(
    title: str,
    subtitle: str,
    frames: Frames,
    *,
    num_blocks: int,
    block_size: int,
    num_host_blocks: int = 0,
    caches: bool = False,
) -> str:
    """The page. `caches`: freed blocks keep their content. Raises ValueError for a pool that is too large to show."""
    if num_blocks > MOST_BLOCKS:
        raise ValueError(f"a pool of {num_blocks:,} blocks cannot be shown block by block, at most {MOST_BLOCKS:,}")
    data = {
        "num_blocks": num_blocks, "block_size": block_size, "num_host_blocks": num_host_blocks, "caches": caches,
        "frames": [frame.plain() for frame in frames.kept],
    }  # fmt: skip
    warnings = []
    if frames.left_out:
        warnings.append(
            f"The first {len(frames.kept):,} of {len(frames.kept) + frames.left_out:,} steps: a page holds no more."
        )
    if not frames.kept:
        return page.document(title, [*_top(title, subtitle, warnings), page.paragraph("No step was made.")])
    if any("planned_s" in frame.step for frame in frames.kept):
        subtitle += ". Scheduling is asynchronous: when a step ends the next is planned, and has its blocks"
    parts = [*_top(title, subtitle, warnings), BODY, data_block(data).replace("<script ", '<script id="pool-data" ', 1)]
    return page.document(title, parts, style=page.asset("pool.css"), scripts=[page.asset("pool.js")])


def _top(title: str, subtitle: str, warnings: Iterable[str]) -> list[str]:
    return [f"<h1>{escape(title)}</h1>", f"<p>{escape(subtitle)}</p>", page.alarm(warnings)]


BODY = """
<p class="soft">A block holds the keys and values of as many tokens as it has slots. The block table of a request says which
blocks hold its own, in order; they may lie anywhere. The strip shows blocks in use over all steps, preemptions in red.</p>
<div class="controls" role="group" aria-label="Steps">
<button type="button" id="first" title="First step (Home)">|◀</button>
<button type="button" id="back" title="One step back (←)">◀</button>
<button type="button" id="play" title="Play or stop (space)">Play</button>
<button type="button" id="forward" title="One step on (→)">▶</button>
<button type="button" id="last" title="Last step (End)">▶|</button>
<input type="range" id="slider" min="0" step="1" aria-label="Step">
<label>speed <select id="speed"><option value="1500">slow</option><option value="700" selected>normal</option>
<option value="200">fast</option></select></label>
</div>
<div class="overview" id="overview" title="Blocks over all steps: point at a step to go there"></div>
<div class="two">
<section><h2 id="when"></h2><ul id="events" class="events" aria-live="polite"></ul></section>
<section><h2>Waiting</h2><div id="waiting" class="chips"></div></section>
</div>
<h2>Blocks of the device <span class="soft" id="usage"></span></h2>
<div id="device" class="pool"></div>
<div id="host-part"><h2>Blocks of the host <span class="soft" id="host-usage"></span></h2>
<div id="host" class="pool"></div></div>
<p class="legend" id="legend"></p>
<h2>Block tables</h2>
<div id="tables" class="tables"></div>
"""
