"""infercept, by hand: A has computed 12 tokens when it pauses after its first, at 1 s; B, who runs, holds 40 by then.

keep        T * 12                      token-seconds, if the pause takes T seconds
swap        2 * 0.002 * 12 * 40 = 1.92
recompute   0.01 * 12 * (12 + 40) = 6.24
"""

from typing import Any

import pytest

from tests.policies.scenarios import played, request
from twin.cli.main import main

COSTS = "recompute_per_token_s=0.01, swap_per_token_s=0.002"
HOST = {"num_cpu_blocks": 3}


def way(table: list[Any]) -> str:
    """What has become of the blocks of a request that pauses."""
    return "recompute" if not table else "keep" if None not in table else "swap"


def ways(expected_pause_s: float, requests: list[dict[str, Any]], cache: dict[str, Any], costs: str = COSTS) -> list[Any]:
    """The block tables after each step."""
    policy = {"name": "fcfs", "pause": f"infercept(expected_pause_s={expected_pause_s}, {costs})"}
    return [step["block_tables"] for step in played(policy, requests, 40, 4, cache)[0]]


def way_of_a(expected_pause_s: float, cache: dict[str, Any], costs: str = COSTS) -> str:
    requests = [request("A", 12, 2, pauses=[[1, 1]]), request("B", 40, 9)]
    return way(ways(expected_pause_s, requests, cache, costs)[0]["A"])


@pytest.mark.parametrize(
    "expected_pause_s, host, without_host",
    [
        (0.15, "keep", "keep"),  # 1.8
        (0.17, "swap", "keep"),  # 2.04
        (0.51, "swap", "keep"),  # 6.12
        (0.53, "swap", "recompute"),  # 6.36
    ],
)
def test_the_least_waste_decides(expected_pause_s: float, host: str, without_host: str) -> None:
    assert way_of_a(expected_pause_s, HOST) == host
    assert way_of_a(expected_pause_s, {}) == way_of_a(expected_pause_s, {"num_cpu_blocks": 2}) == without_host


@pytest.mark.parametrize("swap_s, expected", [(0.006, "swap"), (0.007, "recompute")])
def test_a_slow_link_loses_to_computing_again(swap_s: float, expected: str) -> None:
    """2 * 0.006 * 12 * 40 = 5.76; 2 * 0.007 * 12 * 40 = 6.72."""
    assert way_of_a(9, HOST, f"recompute_per_token_s=0.01, swap_per_token_s={swap_s}") == expected


def test_a_request_that_is_alone_swaps_for_nothing() -> None:
    """Nobody waits for its transfers."""
    assert way(ways(9, [request("A", 12, 2, pauses=[[1, 1]])], HOST)[0]["A"]) == "swap"


def test_it_expects_the_mean_of_the_pauses_that_it_has_seen() -> None:
    """The guess of 0.1 s and one of 9 s make 4.55 s: 54.6 token-seconds. B, who pauses at 20 s, holds 12, and C 59."""
    requests = [request("A", 12, 2, pauses=[[1, 9]]), request("B", 12, 2, 19.0, pauses=[[1, 1]]), request("C", 40, 30)]
    tables = ways(0.1, requests, {})
    assert way(tables[0]["A"]) == "keep"
    assert way(tables[19]["B"]) == "recompute"  # 0.01 * 12 * (12 + 59) = 8.52


@pytest.mark.parametrize("name", ["expected_pause_s", "recompute_per_token_s", "swap_per_token_s"])
def test_a_negative_time_is_refused(name: str) -> None:
    from policies.infercept import Infercept

    with pytest.raises(ValueError, match=f"{name} must be 0 or more seconds, not -1"):
        Infercept(**{name: -1})


def test_it_is_a_part_on_the_command_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "tools.csv"
    trace.write_text('arrival_s,prompt_tokens,output_tokens,pauses\n0,30,40,"20:1.5;30:0.3:40"\n0.1,30,10,\n')
    words = ["run", "trace=file", f"trace.path={trace}", "policy.pause=infercept(expected_pause_s=3)", "hydra.run.dir=out"]
    assert main(words) == 0
