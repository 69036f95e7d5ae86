"""Where our scheduler and vLLM's part ways in a scenario, and the smallest scenario in which they still do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from engine.oracle.compare import first_difference
from engine.oracle.ours import play_ours, with_rules_of
from engine.oracle.play import Play
from engine.oracle.versions import DIFFERENCES
from twin.sim.scenario_file import read_scenario

Content = dict[str, Any]
SIMPLER = {  # section, option: what is simpler than what a random scenario has
    ("cache", "enable_prefix_caching"): False,
    ("cache", "watermark"): 0.0,
    ("scheduler", "long_prefill_token_threshold"): 0,
    ("scheduler", "enable_chunked_prefill"): True,
    ("scheduler", "max_num_seqs"): 256,
    ("scheduler", "max_num_batched_tokens"): 128,
    ("model", "max_model_len"): 4096,
    ("policy", "name"): "fcfs",
}
MOST_TRIES = 600


def difference(content: Content, version: str) -> list[str]:
    """Empty: both decide the same in all steps, ours in its usual way and by its definition."""
    scenario = with_rules_of(read_scenario(content, "here"), version)
    differences = DIFFERENCES[version]
    theirs = Play(scenario, abort_before_update=differences.get("abort_before_update", True)).run()
    for literal in (False, True):
        found = first_difference(play_ours(scenario, literal), theirs)
        if found:
            return found
    return []


def smallest(content: Content, fails: Callable[[Content], bool], most_tries: int = MOST_TRIES) -> Content:
    """Simplifies as long as it still fails: requests left out, options back to plain ones, smaller numbers."""
    tries = 0
    again = True
    while again:
        again = False
        for candidate in _simpler(content):
            tries += 1
            if tries > most_tries:
                return content
            if fails(candidate):
                content, again = candidate, True
                break
    return content


def _simpler(content: Content) -> Iterator[Content]:
    rows = content["requests"]
    for place in range(len(rows)):
        if len(rows) > 1:
            yield content | {"requests": rows[:place] + rows[place + 1 :]}
    for (section, option), plain in SIMPLER.items():
        if content[section].get(option, plain) != plain:
            yield content | {section: content[section] | {option: plain}}
    if content["latency"] != {"base_s": 1.0}:
        yield content | {"latency": {"base_s": 1.0}}
    for place, row in enumerate(rows):
        for simpler in _simpler_request(row):
            yield content | {"requests": rows[:place] + [simpler] + rows[place + 1 :]}


def _simpler_request(row: Content) -> Iterator[Content]:
    for option in ("abort_s", "max_tokens", "priority"):
        if option in row:
            yield {name: value for name, value in row.items() if name != option}
    for option in ("prompt_tokens", "output_tokens"):
        if row.get(option, 1) > 1:
            for fewer in sorted({1, row[option] // 2, row[option] - 1}):
                yield row | {option: fewer}
    arrival_s = row["arrival_s"]
    for earlier in (0.0, float(int(arrival_s))):
        if earlier < arrival_s:
            yield row | {"arrival_s": earlier}


def scenario_file(content: Content) -> str:
    """The scenario as a file that `twin scenario` and `engine oracle` play."""
    import yaml

    sections = {name: value for name, value in copy.deepcopy(content).items() if name != "requests"}
    text = yaml.safe_dump(sections, default_flow_style=None, sort_keys=False, width=1000)
    rows = "".join(
        f"  - {yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=1000)}" for row in content["requests"]
    )
    return f"{text}requests:\n{rows}"
