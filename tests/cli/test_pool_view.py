"""The page that shows the block pool after every step: the decisions of the scenario, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.results.parsed import Parsed
from twin.cli.main import main
from twin.results.decisions import read_decisions
from twin.results.pool_page import Frame, Frames, Holder, pool_html

SHORT_OF_BLOCKS = """cache: {num_gpu_blocks: 4, block_size: 4, enable_prefix_caching: false}
scheduler: {max_num_seqs: 8, max_num_batched_tokens: 16}
policy: {name: fcfs, preemption_mode: recompute}
requests:
  - {id: A, arrival_s: 0, prompt_tokens: 7, output_tokens: 4}
  - {id: B, arrival_s: 0.5, prompt_tokens: 7, output_tokens: 3}
"""
EVERYTHING = """cache: {num_gpu_blocks: 24, block_size: 8, enable_prefix_caching: true, num_cpu_blocks: 12}
scheduler: {max_num_seqs: 8, max_num_batched_tokens: 48, async_scheduling: ASYNC}
policy: {name: fcfs, preemption_mode: swap}
requests:
  - {id: ann, arrival_s: 0, prompt: "0-31,100-110", output_tokens: 30}
  - {id: bob, arrival_s: 0.5, prompt: "0-31,200-205", output_tokens: 40}
  - {id: cy, arrival_s: 2, prompt_tokens: 21, output_tokens: 18, n: 3}
  - {id: dee, arrival_s: 6, prompt_tokens: 40, output_tokens: 25}
  - {id: eve, arrival_s: 30, prompt: "0-31,300-303", output_tokens: 12}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def viewed(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The steps that `twin scenario` prints, and the data of the page it writes."""
    Path("one.yaml").write_text(text)
    assert main(["scenario", "one.yaml", "pool_view=pool.html"]) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()][:-1]
    (data,) = Parsed(Path("pool.html").read_text()).data
    return steps, data


@pytest.mark.parametrize("text", [SHORT_OF_BLOCKS, *(EVERYTHING.replace("ASYNC", word) for word in ("false", "true"))])
def test_the_page_shows_the_decisions_of_every_step(text: str, capsys):
    steps, data = viewed(text, capsys)
    assert ("asynchronous" in Path("pool.html").read_text()) == ("async_scheduling: true" in text)
    assert len(steps) == len(data["frames"]) > 5
    for step, frame in zip(steps, data["frames"], strict=True):
        tables = {name: holder["table"] for name, holder in frame["holders"].items()}
        assert tables == {name: table for name, table in step["block_tables"].items() if table}
        assert frame["free"] == step["free_blocks"]
        derived = {key: step[key] for key in step if key not in ("block_tables", "ref_counts", "free_blocks")}
        assert {key: frame[key] for key in derived} == derived
        held = {int(block) for block in step["ref_counts"]}
        assert len(frame["cached"]) == len(set(frame["cached"]) - held) <= frame["free"] == data["num_blocks"] - len(held)


def test_what_is_preempted_waits(capsys):
    """docs/scenarios.md, step 3: A holds blocks 0, 1, 3 and the KV of nine of its 7 + 3 tokens."""
    _, data = viewed(SHORT_OF_BLOCKS, capsys)
    third = data["frames"][2]
    assert third["preempted"] == {"B": "recompute"} and third["waiting"] == ["B"]
    assert third["holders"] == {
        "A": {"state": "running", "prompt": 7, "generated": 3, "computed": 9, "table": [0, 1, 3], "host": {}}
    }


def test_freed_blocks_keep_their_content_until_they_are_given_out(capsys):
    """A fills blocks 0 and 1 and begins 2. Blank blocks are given out first (2, 3), then the cached ones, that of A's tail
    before the other: B takes 2, 3, 1. It ends at once, and gives them back behind what is cached, its tail first: 1, 3, 2.
    """
    _, data = viewed(
        """cache: {num_gpu_blocks: 4, block_size: 4, enable_prefix_caching: true}
requests:
  - {id: A, arrival_s: 0, prompt: "0-7", output_tokens: 2}
  - {id: B, arrival_s: 5, prompt: "100-111", output_tokens: 1}
""",
        capsys,
    )
    ended, other = data["frames"][1:3]
    assert ended["finished"] == ["A"] and (ended["cached"], ended["free"], ended["holders"]) == ([1, 0], 4, {})
    assert other["finished"] == ["B"] and other["cached"] == [0, 1, 3, 2]


def test_swapped_blocks_lie_on_the_host(capsys):
    _, data = viewed(EVERYTHING.replace("ASYNC", "false"), capsys)
    away = [frame for frame in data["frames"] if any(holder["host"] for holder in frame["holders"].values())]
    assert away and "swap" in away[0]["preempted"].values()
    for frame in away:
        for holder in frame["holders"].values():
            gone = [str(place) for place, block in enumerate(holder["table"]) if block is None]
            assert list(holder["host"]) == gone and (holder["state"] == "swapped") == bool(gone)
            assert all(block < data["num_host_blocks"] for block in holder["host"].values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one.yaml", "pool_view=pool.txt"], "must end in .html"),
        (["one.yaml", "pool_view=nowhere/pool.html"], "there is no folder nowhere"),
        (["many.jsonl", "pool_view=pool.html"], "shows one scenario"),
        (["large.yaml", "pool_view=pool.html"], "at most 4,096 blocks, and there are 5,000"),
        (["one.yaml", "pool_views=pool.html"], "there are policy_path and pool_view"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(words: list[str], said: str, capsys):
    Path("one.yaml").write_text(SHORT_OF_BLOCKS)
    Path("large.yaml").write_text(SHORT_OF_BLOCKS.replace("num_gpu_blocks: 4", "num_gpu_blocks: 5000"))
    Path("many.jsonl").write_text('{"id": "x", "scenario": {}}\n')
    assert main(["scenario", *words]) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and len(output.err.splitlines()) == 1
    assert not list(Path().glob("*.html"))


def test_the_same_scenario_gives_the_same_page(capsys):
    viewed(SHORT_OF_BLOCKS, capsys)
    first = Path("pool.html").read_bytes()
    viewed(SHORT_OF_BLOCKS, capsys)
    assert Path("pool.html").read_bytes() == first


def one_frame(step: int) -> Frame:
    told = {"step": step, "start_s": 0.0, "end_s": 1.0, "scheduled": {"</script>": 1}, "admitted": [], "preempted": {},
            "swapped_in": [], "outputs": {}, "finished": [], "cached_tokens": {}, "copies": []}  # fmt: skip
    return Frame(told, {"</script>": Holder("running", 4, 1, 4, [0, 1])}, [], [], 2)


def test_a_long_run_is_shown_as_far_as_a_page_goes_and_says_so():
    frames = Frames(most_frames=3)
    for step in range(1, 6):
        frames.add(one_frame(step))
    text = pool_html("A run", "of five", frames, num_blocks=4, block_size=4)
    assert "The first 3 of 5 steps" in text
    (data,) = Parsed(text).data
    assert [frame["step"] for frame in data["frames"]] == [1, 2, 3]
    wide = Frames(most_entries=4)
    for step in range(1, 6):
        wide.add(one_frame(step))  # two entries each
    assert (len(wide.kept), wide.left_out) == (2, 3)


def test_a_run_without_steps_has_a_page():
    assert Parsed(pool_html("A run", "of none", Frames(), num_blocks=4, block_size=4)).data == []


def test_a_pool_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="5,000 blocks cannot be shown"):
        pool_html("A run", "", Frames(), num_blocks=5000, block_size=16)


RUN = ["run", "policy=fcfs", "trace=chat", "trace.num_requests=6", "trace.rate=20", "cache.num_gpu_blocks=300",
       "output.figures=false", "output.report=false", "hydra.run.dir=out"]  # fmt: skip


def test_a_run_has_the_page_and_its_decisions_both(capsys):
    assert main([*RUN, "output.pool_view=true", "output.decisions=true"]) == 0
    (data,) = Parsed(Path("out/pool.html").read_text()).data
    steps = list(read_decisions(Path("out/decisions.jsonl.gz")))
    assert len(data["frames"]) == len(steps) and data["num_blocks"] == 300
    for step, frame in zip(steps, data["frames"], strict=True):
        assert {name: holder["table"] for name, holder in frame["holders"].items()} == step["block_tables"]
        assert frame["free"] == step["free_blocks"] and frame["scheduled"] == step["scheduled"]
    numbers = Path("out/requests.parquet").read_bytes()
    assert main(RUN) == 0  # without it the numbers are the same, and the old page is gone
    assert Path("out/requests.parquet").read_bytes() == numbers
    assert not Path("out/pool.html").exists() and not Path("out/decisions.jsonl.gz").exists()


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"cache.num_gpu_blocks": 5000, "cache.num_cpu_blocks": 10}, {"cache.num_gpu_blocks"}),
        ({"cache.num_gpu_blocks": 300, "cache.num_cpu_blocks": 5000}, {"cache.num_cpu_blocks"}),
        ({"cache.num_gpu_blocks": 5000, "cache.num_cpu_blocks": 5000}, {"cache.num_gpu_blocks", "cache.num_cpu_blocks"}),
    ],
)
def test_a_run_with_too_large_a_pool_is_refused_before_it_starts(sizes, named, capsys):
    assert main([*RUN, "output.pool_view=true", *(f"{name}={size}" for name, size in sizes.items())]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "output.pool_view=true" in line and "at most 4,096 blocks" in line
    assert {name for name in sizes if name in line} == named
    assert not Path("out").exists()
