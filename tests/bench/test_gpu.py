"""bench/gpu.py as far as it can be tested without a GPU: plans, arithmetic, budget, processes, files, and a dry run."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.on_gpu import bandwidth, checks, decode, machine, prepare, processes, roofline, swaps, tables, timing
from bench.on_gpu.budget import Budget, Deadline
from bench.on_gpu.items import (
    BROKEN,
    DONE,
    FAILED,
    NOT_BEGUN,
    OUT_OF_TIME,
    Facts,
    Item,
    Note,
    Outcome,
    PartResult,
    Row,
    Section,
)
from bench.on_gpu.options import layers_that_fit, options
from bench.on_gpu.processes import run_section
from bench.on_gpu.run import Run
from bench.on_gpu.sections import sections
from bench.on_gpu.setup import GB, MB, Setup, on_cpu, on_gpu
from bench.on_gpu.summary import summary, wrong
from bench.on_gpu.swaps import pairs
from engine.attention.cpu.library import why_not
from engine.build import TORCH_DTYPES
from engine.checks.attention import Layer, groups
from engine.checks.case import Wrong
from engine.errors import EngineError
from engine.kv_transfers import runs
from twin.memory import ModelShape, model_shape
from twin.results.atomic import OutputError

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "bench" / "gpu.py"


needs_compiler = pytest.mark.skipif(why_not() is not None, reason="attention=cpu cannot be had here")


def shape_of(name: str) -> ModelShape:
    return model_shape(options((f"model={name}",), on_cpu(Path()))["model"])


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


# --- time


def test_sections_share_what_those_before_them_left() -> None:
    clock = FakeClock()
    budget = Budget(100, clock)
    assert budget.allotted_s([1, 1, 2]) == 25
    clock.now_s += 10  # 15 less than it might have
    assert budget.allotted_s([1, 2]) == 30
    clock.now_s += 60  # 30 more than it should have
    assert budget.allotted_s([2]) == 30
    clock.now_s += 31
    assert budget.left_s() == 0 and budget.allotted_s([2]) == 0


def test_a_deadline_is_over_when_its_seconds_are() -> None:
    clock = FakeClock()
    deadline = Deadline(5, clock)
    clock.now_s += 4.5
    assert deadline.left_s() == 0.5 and not deadline.is_over
    clock.now_s += 0.5
    assert deadline.is_over


def test_a_whole_run_has_less_than_six_minutes() -> None:
    """What the sections are given, the grace of the last one, and the JOIN_S that a killed process may take to be gone."""
    from bench.gpu import SECONDS

    assert SECONDS + processes.KILLED_AFTER_S + processes.JOIN_S < 345  # the rest: starting, and writing
    for setup in (on_gpu(Path()), on_cpu(Path())):
        assert [each.name for each in sections(setup)] == [
            "machine", "build", "checks", "bandwidth", "decode", "profile", "swap",
        ]  # fmt: skip
    assert sum(each.share for each in sections(on_gpu(Path()))) == SECONDS


def test_what_is_timed_takes_turns_and_the_median_counts() -> None:
    order = []
    seconds = {"a": iter([1.0, 9.0, 2.0]), "b": iter([5.0, 4.0, 6.0])}

    def timed(name: str) -> float:
        order.append(name)
        return next(seconds[name])

    assert timing.interleaved({name: partial(timed, name) for name in seconds}, 3) == {"a": 2.0, "b": 5.0}
    assert order == ["a", "b"] * 3


def test_events_stand_around_the_second_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With events that note their order, in place of CUDA's; these count in milliseconds."""
    order: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            order.append("record")

        def synchronize(self) -> None:
            order.append("synchronize")

        def elapsed_time(self, end: Event) -> float:
            return 2.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert timing.by_events(lambda: order.append("launch")) == 0.0025
    assert order == ["launch", "record", "launch", "record", "synchronize"]


# --- arithmetic, by hand


def test_bytes_of_attention() -> None:
    """2 x 64 x 4096 x 8 x 128 elements = 2^29; Llama 3.1 8B takes 128 KiB a token over its 32 layers."""
    assert roofline.attention_bytes(64, 4096, 8, 128, 2) == 2**30
    assert roofline.attention_bytes(64, 4096, 8, 128, 1) == 2**29
    assert roofline.kv_bytes_read(shape_of("llama3.1-8b"), 1, 1, 2) == 131_072
    assert roofline.kv_bytes_read(shape_of("llama3.1-8b"), 16, 1000, 2) == 16_000 * 131_072


def test_bytes_of_weights() -> None:
    """A layer: 2 (4096 x 4096) + 2 (4096 x 1024) + 3 (4096 x 14336) + 2 x 4096; 32 of them, the last norm, the head.

    The embedding of SmolLM2 is its head too, so all of its 134,515,008 parameters are read.
    """
    layer = 33_554_432 + 8_388_608 + 176_160_768 + 8_192
    assert roofline.weight_bytes_read(shape_of("llama3.1-8b"), 2) == 2 * (32 * layer + 4_096 + 128_256 * 4_096)
    assert roofline.weight_bytes_read(shape_of("smollm2-135m"), 2) == 269_030_016


def test_shares_of_what_memory_allows() -> None:
    """2 GB read and written in 1 ms are 4 TB/s; at that rate 1 GB takes 0.25 ms, half of 0.5 ms."""
    rate = roofline.copy_rate(2 * GB, 1e-3)
    assert rate == pytest.approx(4e12)
    assert roofline.share(GB, rate, 0.5e-3) == pytest.approx(0.5)


# --- plans


def test_points_from_1_gb_on_come_first_and_every_shape_has_some() -> None:
    setup = on_gpu(Path())
    found = bandwidth.points(setup, setup.most_kv_bytes)
    assert len(found) == len(set(found))
    assert max(point.kv_bytes for point in found) <= setup.most_kv_bytes
    large = [point.kv_bytes >= GB for point in found]
    assert large == sorted(large, reverse=True)
    shapes = {(group, dim, dtype) for group in (1, 4, 8) for dim in (64, 128) for dtype in ("bf16", "fp8")}
    assert {point[2:5] for point in found[:12]} == shapes and all(large[:12])
    assert found[0] == bandwidth.Point(64, 4096, 4, 128, "bf16", 8)  # 2^30 bytes, the least of its shape from 1 GB on


def test_a_small_gpu_gets_smaller_points() -> None:
    setup = on_gpu(Path())
    found = bandwidth.points(setup, 600 * MB)
    assert found and max(point.kv_bytes for point in found) <= 600 * MB
    assert set(found) < set(bandwidth.points(setup, setup.most_kv_bytes))


def test_a_timing_reads_more_than_the_l2_holds() -> None:
    """4 MiB of KV: 62 layers are 256 MB and more; fewer where the pool ends, one where a layer is more than that."""
    small, large = (bandwidth.Point(1, tokens, 4, 128, "bf16", 8) for tokens in (1024, 1 << 18))
    assert small.kv_bytes == 4 << 20 and bandwidth.layers_of(small, 256 * MB, GB) == 62
    assert bandwidth.layers_of(small, 256 * MB, 41 << 20) == 10
    assert bandwidth.layers_of(large, 256 * MB, 2 * GB) == 1


def test_layers_that_fit() -> None:
    """24 GB cards show 23.5: 0.9 of it less embedding (twice), head, norm and 3 GB leave 14.998 GB for layers of 436.2 MB
    weights and 67.1 MB keys and values of 16,384 tokens: 29."""
    shape = shape_of("llama3.1-8b")
    assert layers_that_fit(shape, 140 * GB) == 32
    assert layers_that_fit(shape, int(23.5 * GB)) == 29
    with pytest.raises(EngineError, match="not even one layer fits into the free 7.0 GB"):
        layers_that_fit(shape, 7 * GB)


def test_decode_batches_that_do_not_fit_are_left_out() -> None:
    """2,048 blocks of 16 hold 32 x 1024 or 4 x 8192 tokens."""
    fitting, left_out = decode.points(on_gpu(Path()), 2048, 16)
    assert [(each.decodes, each.decode_context) for each in fitting] == [
        *((batch, 1024) for batch in (1, 2, 4, 8, 16, 32)), *((batch, 8192) for batch in (1, 2, 4)),
    ]  # fmt: skip
    assert len(left_out) == 9
    limits = decode.limits_for(fitting, 16)
    assert (limits.num_blocks, limits.max_num_seqs, limits.max_model_len) == (2048, 32, 8192)
    assert all(each.fits(limits) for each in fitting)


@pytest.mark.parametrize("run, count", [(1, 16), (4, 4), (16, 1), (5, 3)])
def test_swapped_blocks_make_runs_of_the_length_asked_for(run: int, count: int) -> None:
    moved = pairs(16, run)
    assert len({source for source, _ in moved}) == len({target for _, target in moved}) == len(moved) == run * count
    assert [each.blocks for each in runs(moved)] == [run] * count


def test_every_library_that_is_needed_is_built_before() -> None:
    """By the checks in the shape of Llama 3.1 8B, by tiny models and by the bandwidth; and no other."""
    setup, dtype = on_gpu(Path()), torch.bfloat16
    asked = groups(torch.device("cuda"), Layer("llama3.1-8b", 32, 8, 128, 16, dtype, dtype))
    assert len(asked) == checks.ALL_GROUPS
    needed = {
        (case.get("dim", 64), case.get("cache_dtype") or case.get("dtype", torch.float32))
        for group in asked for case in group.cases
    }  # fmt: skip
    needed |= {(dim, TORCH_DTYPES[name]) for dim in setup.head_dims for name in setup.kv_dtypes}
    assert needed == {(dim, TORCH_DTYPES[name]) for dim, name in prepare.LIBRARIES}


# --- what is computed


def test_attention_of_layers_is_attention() -> None:
    """Against softmax(q k / sqrt(dim)) v written out, through the block tables, of the last layer."""
    point = bandwidth.Point(3, 40, 4, 64, "bf16", 2)
    generator = torch.Generator().manual_seed(5)
    shape = (point.blocks, bandwidth.BLOCK_SIZE, point.kv_heads, point.head_dim)
    caches = [tuple(torch.randn(shape, generator=generator).bfloat16() for _ in range(2)) for _ in range(2)]
    seen: list[Tensor] = []

    class Seen:
        """Notes the queries on their way to attention=torch."""

        def __init__(self) -> None:
            self.backend = bandwidth.make("torch", bandwidth.Wanted(torch.device("cpu"), 64, 16, torch.bfloat16)).backend

        def attend(self, q: Tensor, *rest: Any) -> Tensor:
            seen.append(q)
            return self.backend.attend(q, *rest)

    out = bandwidth.attention_of_layers(Seen(), point, caches, torch.device("cpu"))()  # type: ignore[arg-type]
    batch = bandwidth.scattered_batch(point, torch.device("cpu"))
    assert sorted(batch.block_tables.flatten().tolist()) == list(range(point.blocks))
    for row in range(point.batch):
        k, v = (cache[batch.block_tables[row].long()].flatten(0, 1)[:40].double() for cache in caches[1])
        for head in range(8):
            weights = (seen[1][row, head].double() @ k[:, head // 4].T / 8).softmax(0)
            torch.testing.assert_close(out[row, head].double(), weights @ v[:, head // 4], atol=1.6e-2, rtol=1.6e-2)


def test_results_that_differ_are_seen() -> None:
    one, other = torch.tensor([1.0, -4.0]), torch.tensor([1.0, -3.0])
    assert bandwidth.apart(one, [one, other]) == 0.25
    assert bandwidth.apart(one, [one]) == 0
    assert not bandwidth.apart(torch.tensor([float("nan"), 1.0]), [one]) <= bandwidth.AGREE


@needs_compiler
def test_a_graph_that_replays_old_inputs_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graphs = partial(checks.graphs_as_eager, "cpu", "llama", 64, torch.float32, on_cpu(tmp_path))
    error = graphs().error
    assert error is not None and error <= 1e-4

    def never_again(launch: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        return launch(), lambda: None

    monkeypatch.setattr(checks, "computed_anew", never_again)
    with pytest.raises(Wrong, match="logits of the graph are off by"):
        graphs()


def test_a_back_end_that_cannot_be_had_says_why_and_leaves_the_others(tmp_path: Path) -> None:
    setup = replace(on_cpu(tmp_path), backends=("cuda", "torch"), recordable=("cuda",))
    pool = bandwidth.Pool([bandwidth.Point(1, 16, 4, 64, "bf16", 2)], "bf16", 50_000, torch.device("cpu"))
    bench = bandwidth.Bench(setup, torch.device("cpu"), {"bf16": pool}, 50_000)
    cuda, plain = (row.values for row in bench.rows(bandwidth.Point(1, 16, 4, 64, "bf16", 2)))
    assert "attention=cuda: the model is on cpu" in cuda["why"] and "of_copy" not in cuda
    assert plain["why"] == "" and plain["kv_gb"] == 2 * 16 * 2 * 64 * 2 / GB and plain["layers"] == 6  # in 50,000 bytes
    assert plain["of_copy"] == pytest.approx(plain["gb_s"] / plain["copy_gb_s"])
    assert plain["gb_s"] * plain["median_us"] == pytest.approx(plain["kv_gb"] * 1e6)


def test_a_section_without_time_says_what_it_left_out(tmp_path: Path) -> None:
    """Each part begins, sees that its time is over, and says so."""
    setup = on_cpu(tmp_path)
    for measure in (bandwidth.measure, decode.measure, swaps.measure, partial(checks.graphs, "torch")):
        items = list(measure(setup, Deadline(0)))
        assert not [item for item in items if isinstance(item, Row)]
        assert any(isinstance(item, Note) and "no time for" in item.text for item in items)


class NoGraphs:
    """As where memory does not suffice for one."""

    def serves(self, step: object) -> bool:
        return False


@needs_compiler
def test_a_step_that_no_graph_served_is_not_told_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(decode, "DecodeGraphs", lambda *about: NoGraphs())
    rows = [item.values for item in decode.measure(on_cpu(tmp_path), Deadline(60)) if isinstance(item, Row)]
    assert {row["how"]: "step_ms" in row for row in rows} == {"graph": False, "eager": True}
    assert all(row["why"].startswith("the step was computed without a graph") for row in rows if row["how"] == "graph")


def test_what_nvidia_smi_says() -> None:
    asked: list[list[str]] = []

    def answer(command: list[str]) -> str:
        asked.append(command)
        return "550.1, 1980 MHz\n"

    assert machine.smi("GPU-1", ("driver_version", "clocks.sm"), answer) == {
        "driver_version": "550.1", "clocks.sm": "1980 MHz",
    }  # fmt: skip
    assert asked[0][:3] == ["nvidia-smi", "--id=GPU-1", "--query-gpu=driver_version,clocks.sm"]

    def hung(command: list[str]) -> str:
        raise subprocess.TimeoutExpired(command, 10)

    assert machine.smi("GPU-1", ("clocks.sm",), hung) == {"not readable": "TimeoutExpired of nvidia-smi"}


# --- processes. These parts are taken to others by name.


def says_two(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    yield Row("build", {"of": "one"})
    yield Facts({"device": setup.device})


def fails(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    yield Row("build", {"of": "before"})
    raise EngineError("this cannot\nbe had")


def breaks(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    yield Row("build", {"of": "before"})
    raise ZeroDivisionError("a defect")


def crashes(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    yield Row("build", {"of": "before"})
    os.abort()


def hangs(pid_file: Path, setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Deaf to interruptions, and with a process of its own, as one that compiles."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield Row("build", {"of": "before"})
    child = subprocess.Popen(["sleep", "300"])
    pid_file.write_text(str(child.pid))
    while True:
        time.sleep(0.1)


def naps(setup: Setup, deadline: Deadline) -> Iterator[Item]:
    """Past its time, but not deaf."""
    yield Row("build", {"of": "before"})
    while True:
        time.sleep(0.1)


def run_parts(
    tmp_path: Path, parts: dict[str, Any], seconds: float = 120, at_once: int = 2
) -> tuple[list[Item], list[PartResult]]:
    items: list[Item] = []
    results = run_section(Section("section", 1, parts, at_once), on_cpu(tmp_path), seconds, items.append)
    return items, results


def test_parts_hand_over_what_they_have_however_they_end(tmp_path: Path) -> None:
    parts = {"good": says_two, "fails": fails, "breaks": breaks, "crashes": crashes, "good too": says_two}
    items, results = run_parts(tmp_path, parts)
    assert [(each.part, each.state) for each in results] == [
        ("good", DONE), ("fails", FAILED), ("breaks", BROKEN), ("crashes", BROKEN), ("good too", DONE),
    ]  # fmt: skip
    assert items.count(Row("build", {"of": "before"})) == 3 and items.count(Row("build", {"of": "one"})) == 2
    assert items.count(Facts({"device": "cpu"})) == 2
    by_name = {each.part: each for each in results}
    assert by_name["fails"].why == "EngineError: this cannot be had"
    assert "ZeroDivisionError: a defect" in by_name["breaks"].traceback and "in breaks" in by_name["breaks"].traceback
    assert by_name["crashes"].why == "ended with status -6" and "Fatal Python error: Aborted" in by_name["crashes"].traceback


def test_what_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First with a word, then by force, with the processes that it has started; what waits is not begun any more."""
    monkeypatch.setattr(processes, "INTERRUPTED_AFTER_S", 0.1)
    monkeypatch.setattr(processes, "KILLED_AFTER_S", 1.5)
    run_parts(tmp_path, {"first": says_two})  # the server of processes takes seconds to start
    pid_file = tmp_path / "pid"
    parts = {"naps": naps, "hangs": partial(hangs, pid_file), "waits": says_two}
    items, results = run_parts(tmp_path, parts, seconds=3)
    assert [(each.part, each.state) for each in results] == [
        ("naps", OUT_OF_TIME), ("hangs", OUT_OF_TIME), ("waits", NOT_BEGUN),
    ]  # fmt: skip
    assert results[0].why == "did not end in time and was interrupted"
    assert results[1].why == "did not end in time and was stopped"
    assert items == [Row("build", {"of": "before"})] * 2
    assert not is_alive(int(pid_file.read_text()))


def is_alive(pid: int) -> bool:
    """A zombie, which waits for whoever adopted it, is not."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX":
            return False
        time.sleep(0.05)
    return True


# --- files


ABOUT = {"dry_run": False, "device": "GPU of a test", "command": "python bench/gpu.py", "date": "2026-01-01T00:00:00+00:00"}
SHARES = [("cuda", 1.1, 0.90), ("cuda", 2.0, 0.80), ("cuda", 0.5, 0.10), ("torch", 1.1, 0.25)]


def an_outcome() -> Outcome:
    point = {"batch": 1, "context": 2, "group": 4, "head_dim": 64, "kv_dtype": "bf16"}
    items: list[Item] = [
        *(
            Row("bandwidth", {**point, "backend": name, "kv_gb": gb, "of_copy": share, "differs_by": 0.01})
            for name, gb, share in SHARES
        ),
        Row("bandwidth", {**point, "backend": "triton", "kv_gb": 2.0, "why": "OutOfMemoryError: 4 | 5 GB"}),
        Row("decode", {"how": "graph", "batch": 1, "of_roofline": 0.7, "device_of_roofline": 0.8}),
        Row("decode", {"how": "eager", "batch": 1, "of_roofline": 0.1, "device_of_roofline": 0.1}),
        Row("checks", {"check": "attention=cuda", "of": "fp32", "verdict": "passed", "why": ""}),
        Note("small GPU"),
    ]  # fmt: skip
    return Outcome("all", 10.0, 9.0, [PartResult("part", DONE, 9.0)], items)


def test_the_summary_counts_what_the_goals_are_about() -> None:
    """From 1 GB on: 0.90 and 0.80, whose median is 0.85; one of the two reaches 0.85. Only graphs count for decode."""
    text = summary(ABOUT, [an_outcome()])
    for line in (
        "# GPU of a test", "| checks | none failed | | | 1 passed |",
        "| attention=cuda, of a copy, from 1 GB | 85% | 80% | 85% | 1 of 2 |",
        "| attention=torch, of a copy, from 1 GB | 85% | 25% | 25% | 0 of 1 |",
        "| decode, whole steps, of the memory roofline | 75% | 70% | 70% | 0 of 1 |",
        "| decode, on the device, of the memory roofline | 75% | 80% | 80% | 1 of 1 |", "- small GPU",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert "OutOfMemoryError: 4 \\| 5 GB |" in text and "## Swapping\n\nNot measured." in text


def test_without_figures_the_summary_says_so() -> None:
    text = summary(ABOUT, [])
    assert text.count("not measured") == 4 and text.count("Not measured.") == 3


def test_what_a_run_must_not_end_well_with() -> None:
    assert wrong([an_outcome()]) == []
    bad = an_outcome()
    bad.parts += [PartResult("hung", OUT_OF_TIME, why="stopped"), PartResult("no nvcc", FAILED, why="EngineError: none")]
    bad.parts.append(PartResult("broke", BROKEN, why="ended with status 1"))
    bad.items.append(Row("checks", {"check": "graphs", "of": "bf16", "verdict": "failed", "why": "off by 3"}))
    row = next(item for item in bad.items if isinstance(item, Row))
    bad.items.append(Row("bandwidth", {**row.values, "differs_by": float("nan")}))
    assert wrong([bad]) == [
        "all: hung: stopped", "all: broke: ended with status 1", "checks: graphs, bf16: off by 3",
        "bandwidth: attention=cuda differs by nan from another (batch 1, context 2, group 4, head_dim 64, kv_dtype bf16)",
    ]  # fmt: skip
    assert bad.state == BROKEN


def test_tables_say_on_which_device(tmp_path: Path) -> None:
    tables.write_all(tmp_path, ABOUT, [an_outcome()], "text\n")
    rows = list(csv.DictReader((tmp_path / "bandwidth.csv").open()))
    assert len(rows) == 5 and {row["device"] for row in rows} == {"GPU of a test"}
    assert rows[1]["of_copy"] == "0.8" and rows[4]["of_copy"] == "" and rows[4]["why"] == "OutOfMemoryError: 4 | 5 GB"
    assert list(csv.DictReader((tmp_path / "swap.csv").open())) == []
    about = json.loads((tmp_path / "results.json").read_text())
    assert about["device"] == "GPU of a test" and about["sections"]["all"]["parts"][0]["state"] == "done"
    assert about["sections"]["all"]["notes"] == ["small GPU"] and about["columns"]["bandwidth"]["of_copy"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*(f"{name}.csv" for name in tables.COLUMNS), "results.json", "summary.md"]
    )  # nothing half-written


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write .*build.csv"):
        tables.write_all(tmp_path / "gone", ABOUT, [], "")


# --- a run


class Sections:
    """In place of processes: what each section says, and how long it takes."""

    def __init__(self, clock: FakeClock, seconds: dict[str, float]) -> None:
        self.clock, self.seconds = clock, seconds
        self.allotted: dict[str, float] = {}

    def __call__(self, section: Section, setup: Setup, seconds: float, hear: Callable[[Item], None]) -> list[PartResult]:
        self.allotted[section.name] = seconds
        hear(Row("build", {"of": section.name}))
        hear(Facts({"device": "Tensor 9000", section.name: 1}))
        if section.name == "interrupted":
            raise KeyboardInterrupt
        self.clock.now_s += self.seconds[section.name]
        state = FAILED if section.name == "second" else DONE
        return [PartResult("part", state, self.seconds[section.name], "why")]


def a_run(tmp_path: Path, names: list[str], fake: Sections, total_s: float) -> Run:
    planned = [Section(name, 1, {"part": says_two}) for name in names]
    return Run(on_gpu(tmp_path), planned, Budget(total_s, fake.clock), [f"to={tmp_path}"], fake)


def test_a_run_goes_on_behind_a_section_that_fails(tmp_path: Path) -> None:
    fake = Sections(FakeClock(), {"first": 10, "second": 60, "third": 5})
    run = a_run(tmp_path, ["first", "second", "third"], fake, 90)
    run.run(tell=lambda line: None)
    assert fake.allotted == {"first": 30, "second": 40, "third": 20}
    about = json.loads((tmp_path / "results.json").read_text())
    assert {name: each["state"] for name, each in about["sections"].items()} == {
        "first": "done", "second": "failed", "third": "done",
    }  # fmt: skip
    assert about["complete"] and about["seconds"] == 75 and about["device"] == "Tensor 9000" and about["third"] == 1
    assert about["command"] == f"python bench/gpu.py to={tmp_path}"
    rows = list(csv.DictReader((tmp_path / "build.csv").open()))
    assert [row["of"] for row in rows] == ["first", "second", "third"]


def test_an_interrupted_run_leaves_what_it_had(tmp_path: Path) -> None:
    fake = Sections(FakeClock(), {"first": 10})
    with pytest.raises(KeyboardInterrupt):
        a_run(tmp_path, ["first", "interrupted", "third"], fake, 90).run(tell=lambda line: None)
    about = json.loads((tmp_path / "results.json").read_text())
    assert list(about["sections"]) == ["first", "interrupted"] and not about["complete"]
    assert [row["of"] for row in csv.DictReader((tmp_path / "build.csv").open())] == ["first", "interrupted"]


# --- the command


def command(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(GPU), *words], capture_output=True, text=True, timeout=280, cwd=cwd, env=environment
    )


@needs_compiler
def test_a_dry_run_goes_through_every_section(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    done = command("to=results", "--dry-run-on-cpu", "--seconds", "200", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    about = json.loads((folder / "results.json").read_text())
    assert about["dry_run"] and about["complete"] and about["device"] == "dry run on a CPU"
    states = {name: section["state"] for name, section in about["sections"].items()}
    assert states == {name: "done" for name in ("machine", "build", "checks", "bandwidth", "decode", "profile", "swap")}
    assert (folder / "summary.md").read_text().startswith("# Dry run\n\n**Tiny sizes on a CPU")
    found = {name: list(csv.DictReader((folder / f"{name}.csv").open())) for name in tables.COLUMNS}
    for rows in found.values():
        assert rows and {row["device"] for row in rows} == {"dry run on a CPU"}
    assert {row["verdict"] for row in found["checks"]} == {"passed"}
    assert {row["check"] for row in found["checks"]} >= {"attention=torch", "graphs, attention=cpu", "model, qwen3"}
    assert all(float(row["of_copy"]) > 0 and float(row["differs_by"]) < 0.05 for row in found["bandwidth"])
    assert {(row["batch"], row["how"]) for row in found["decode"]} == {(n, how) for n in "14" for how in ("graph", "eager")}
    assert {(row["way"], row["run_blocks"], row["copies"]) for row in found["swap"]} == {
        (way, *sizes) for way in ("out", "in") for sizes in (("1", "8"), ("4", "2"))
    }
    with (folder / "profile.csv").open() as file:
        assert {row["kind"] for row in csv.DictReader(file)} >= {"decode", "prefill", "mixed"}

    again = command(f"to={folder}", "--dry-run-on-cpu")
    assert again.returncode == 2 and "holds the results of an earlier run" in again.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    done = command(f"to={tmp_path / 'results'}")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("bench/gpu.py: this machine has no CUDA device")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "words, told",
    [
        (["--dry-run-on-cpu"], "--dry-run-on-cpu: give to=FOLDER, outside of bench/results"),
        (["to=bench/results/dry", "--dry-run-on-cpu"], "--dry-run-on-cpu: give to=FOLDER, outside of bench/results"),
        (["from=here"], "from=here: unknown; there is to=FOLDER"),
        (["to=a,b"], "the name must have no comma"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.gpu import main

    monkeypatch.chdir(ROOT)
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("bench/gpu.py: ") and told in err and err.count("\n") == 1
