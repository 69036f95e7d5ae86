"""Tables of steps of every kind, and what is said of those that cannot be right."""

import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as arrow
import pytest
from pyarrow import parquet

from tests.calibrate.made_up import grid, step, truth, write_profile
from tests.latency.shapes import gpu, model
from twin.calibrate.readers import Wanted, read
from twin.calibrate.steps import GRID, RUN, joined
from twin.core.batch import Features


def wanted(name: str = "llama3.1-8b", device: str = "h100", gpus: int = 1, given: bool = True) -> Wanted:
    return Wanted(model(name), gpu(device), gpus, given, given)


def log(path: Path, **changes: list) -> Path:
    """A step log of vLLM: two decodes of contexts 10 and 20 and then one with a chunk of 5 behind 3."""
    columns = {
        "start_s": [1.0, 1.5, 9.0], "end_s": [1.25, 1.75, 9.5], "gap_before_s": [0.0, 0.002, 7.25], "sequences": [2, 2, 2],
        "prefill_seqs": [0, 0, 1], "prefill_tokens": [0, 0, 5], "decode_tokens": [2, 2, 1], "prefill_ctx": [0, 0, 27.5],
        "decode_context": [30, 32, 11], "context_tokens": [30, 32, 19],
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(columns | changes).to_csv(path, index=False)
    return path


def test_a_profile_in_csv(tmp_path: Path):
    steps = read(write_profile(tmp_path / "mine.csv", grid()), wanted())
    assert [steps.step(row) for row in range(len(steps))] == grid()
    assert list(steps.seconds) == [truth(each) for each in grid()]
    assert steps.kind == GRID and steps.runs == ("mine",) and "says nothing of the model" in steps.notes[0]


def test_a_profile_in_parquet_with_its_metadata_contamination_and_swaps(tmp_path: Path):
    steps = [step(1, 16), step(2, 32), step(4, 64), step(1, 16)]
    columns = {name: [each[place] for each in steps] for place, name in enumerate(Features._fields)}
    columns |= {
        "duration_s": [0.01, 0.02, 0.03, 0.04], "device_s": [0.008, 0.017, 0.02, 0.03],
        "kind": ["decode", "decode", "decode", "swap"], "contaminated": [False, True, False, False],
        "swapped_out_blocks": [0, 0, 0, 8], "swapped_in_blocks": [0, 0, 0, 0], "copies": [0, 0, 0, 2],
        "settled_s": [0.01, 0.02, 0.03, 0.06],
    }  # fmt: skip
    about = {"model": "tiny", "device": "cpu", "block_bytes": 4096, "max_num_seqs": 8, "date": "2026-01-02T03:04:05"}
    table = arrow.table(columns).replace_schema_metadata({b"twin.profile": json.dumps(about).encode()})
    parquet.write_table(table, tmp_path / "profile.parquet")
    found = read(tmp_path, wanted())  # the folder that holds it
    assert list(found.seconds) == [0.01, 0.03] and found.contaminated == 1
    assert found.host_s == pytest.approx([0.002, 0.01])
    assert (found.about.model, found.about.gpu, found.about.max_num_seqs) == ("tiny", "cpu", 8)
    assert found.swaps is not None and found.swaps.block_bytes == 4096
    assert (found.swaps.blocks, found.swaps.copies, found.swaps.seconds) == (8, 2, 0.06)


def test_a_profile_whose_every_row_is_contaminated_is_refused(tmp_path: Path):
    path = write_profile(tmp_path / "mine.csv", grid(), contaminated=[True] * len(grid()))
    with pytest.raises(ValueError, match="mine.csv: 80 of 80 rows are contaminated"):
        read(path, wanted())


def test_the_steps_of_an_engines_run(tmp_path: Path):
    columns = {
        "duration_s": [0.1, 0.2, 0.3, 0.0], "device_s": [0.09, 0.1, 0.2, 0.0], "repeat": [1] * 4,
        "sequences": [1, 2, 1, 0], "prefill_tokens": [8, 8, 0, 0], "decode_tokens": [0, 1, 1, 0],
        "context_tokens": [8, 20, 13, 0], "prefill_context_tokens": [8, 8, 0, 0],
        "prefill_attention": [32.0, 32.0, 0.0, 0.0], "prefill_sequences": [1, 1, 0, 0],
        "used_blocks": [1] * 4, "free_blocks": [9] * 4,
        "swapped_in_blocks": [0, 0, 3, 0], "swapped_out_blocks": [0] * 4,
    }  # fmt: skip
    pd.DataFrame(columns).to_parquet(tmp_path / "steps.parquet")
    (tmp_path / "config.yaml").write_text("{model: {name: tiny, layers: 2}, gpu: {name: cpu}, scheduler: {max_num_seqs: 4}}")
    steps = read(tmp_path, wanted())
    assert steps.kind == RUN and steps.runs == (tmp_path.name,)
    assert [steps.step(row) for row in range(2)] == [step(chunk=8), step(1, 12, 8)]
    assert len(steps) == 2  # that which swapped and that of no sequences are left out
    assert (steps.about.model, steps.about.gpu, steps.about.max_num_seqs) == ("tiny", "cpu", 4)


def test_the_simulators_own_steps_are_refused(tmp_path: Path):
    pd.DataFrame({"used_blocks": [1], "duration_s": [1.0]}).to_parquet(tmp_path / "steps.parquet")
    with pytest.raises(ValueError, match="the simulator's steps, not measured ones; an engine's have the column device_s"):
        read(tmp_path, wanted())


def test_a_step_log_of_vllm_counts_the_usual_gap_and_not_the_idling(tmp_path: Path):
    log(tmp_path / "load03" / "steps.csv")
    (tmp_path / "load03" / "meta.json").write_text('{"vllm": "0.32.0", "model": "tiny", "max_num_seqs": 32}')
    steps = read(tmp_path / "load03", wanted())
    assert steps.seconds == pytest.approx([0.252, 0.252, 0.502])
    assert steps.step(2) == Features(2, 5, 1, 19, 8, 27.5, 1)
    assert steps.runs == ("load03",) and steps.source == "logged steps of vLLM 0.32.0" and steps.about.max_num_seqs == 32


def test_several_files_become_one_table(tmp_path: Path):
    parts = [read(log(tmp_path / name / "steps.csv"), wanted()) for name in ("a", "b")]
    steps = joined(parts)
    assert joined([*parts, parts[0]]).runs == ("a", "b", "a-2")
    assert steps.runs == ("a", "b") and list(steps.run) == [0, 0, 0, 1, 1, 1] and steps.kind == RUN


def test_a_splitwise_table(tmp_path: Path):
    rows = {
        "model": ["llama2-70b"] * 4, "hardware": ["a100-80gb", "a100-80gb", "a100-80gb", "h100-80gb-pcap"],
        "tensor_parallel": [4, 4, 8, 4], "prompt_size": [512, 512, 512, 512], "batch_size": [2, 64, 2, 2],
        "token_size": [128] * 4, "prompt_time": [250.0, 800.0, 1.0, 1.0], "token_time": [45.0, 67.0, 1.0, 1.0],
        "e2e_time": [250.0 + 128 * 45.0, 160_000.0, 129.0, 129.0],
    }  # fmt: skip
    path = tmp_path / "perf_model.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    steps = read(path, wanted("llama2-70b", "a100-80g", 4))
    assert [steps.step(row) for row in range(len(steps))] == [step(chunk=512, prompts=2), step(2, 576)]
    assert list(steps.seconds) == [0.25, 0.045]
    assert "1 rows left out" in steps.notes[0]  # 2,377 tokens where 128 were asked for
    with pytest.raises(ValueError, match="no rows of model=llama2-70b on 4 gpu=h100; there are llama2-70b on 4 a100-80gb"):
        read(path, wanted("llama2-70b", "h100", 4))
    with pytest.raises(ValueError, match="give model= and gpu="):
        read(path, wanted(given=False))


def test_kernel_tables_become_steps_that_are_sums_of_kernels(tmp_path: Path):
    """Dense and head cost 1 us a token and a sequence in one layer of one call; attention 1 us a thousand tokens."""
    folder = tmp_path / "bf16" / "tp1"
    folder.mkdir(parents=True)
    tokens, contexts = (1, 64, 2048), (16, 16384)
    pd.DataFrame([("qkv_proj", size, float(size)) for size in tokens], columns=["layer", "tokens", "time_us"]).to_csv(
        folder / "dense.csv", index=False
    )
    pd.DataFrame([("lm_head", n, float(n)) for n in (1, 256)], columns=["layer", "sequences", "time_us"]).to_csv(
        folder / "per_sequence.csv", index=False
    )
    attention = [(0, 0, n, kv, 1e-3 * n * kv) for n in (1, 256) for kv in contexts]
    attention += [(chunk, kv, 0, 0, 1e-3 * (chunk * (kv + chunk / 2)) / 1e3) for chunk in (16, 2048) for kv in (0, 16384)]
    names = ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"]
    pd.DataFrame(attention, columns=names).to_csv(folder / "attention.csv", index=False)
    (folder.parent / "meta.yaml").write_text("{model: meta-llama/Llama-3.1-8B, gpu: NVIDIA H100, vllm_version: 0.19.0}")
    steps = read(folder, wanted())
    assert (steps.about.model, steps.about.gpu, steps.about.gpus) == ("meta-llama/Llama-3.1-8B", "NVIDIA H100", 1)
    decodes = steps.column("prefill_tokens") == 0
    size, context = steps.column("decode_tokens")[decodes], steps.column("context_tokens")[decodes]
    assert steps.seconds[decodes] == pytest.approx(32e-6 * size + 1e-6 * size + 32 * 1e-9 * context, rel=1e-6)
    assert size.min() == 1 and size.max() > 200 and steps.column("prefill_tokens").max() > 1800
    assert (read(folder, wanted()).features == steps.features).all()  # a fit can be made again


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end_s": [1.25, math.nan, 9.5]}, r"steps.csv, line 3: end_s is nan; it must be a number of 0 or more"),
        ({"decode_tokens": [2, -1, 1]}, r"line 3: decode_tokens is -1; it must be a number"),
        ({"end_s": [1.25, "soon", 9.5]}, r"line 3: end_s is soon; it must be a number"),
        ({"end_s": [1.25, 1.75, 10809.0]}, r"line 4: end_s - start_s is 10800 s; no step lasts .* is it in seconds\?"),
        ({"end_s": [0.5, 1.75, 9.5]}, r"line 2: end_s - start_s is -0.498 s; no step lasts less than"),
    ],
)
def test_durations_and_counts_that_cannot_be_right_are_named_with_their_row(change: dict, message: str, tmp_path: Path):
    with pytest.raises(ValueError, match=message) as caught:
        read(log(tmp_path / "run" / "steps.csv", **change), wanted())
    assert "\n" not in str(caught.value)


def test_cal_05_a_missing_column_is_named_with_the_one_that_was_probably_meant(tmp_path: Path):
    """cal-05: a model is never fitted to a column that is not in the file."""
    path = write_profile(tmp_path / "mine.csv", grid())
    frame = pd.read_csv(path).rename(columns={"prefill_attention": "prefil_attention"})
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match="mine.csv: missing column prefill_attention of .*; is it prefil_attention"):
        read(path, wanted())
    log(tmp_path / "run" / "steps.csv")
    frame = pd.read_csv(tmp_path / "run" / "steps.csv").drop(columns=["prefill_seqs", "decode_context"])
    frame.to_csv(tmp_path / "run" / "steps.csv", index=False)
    with pytest.raises(ValueError, match="missing column prefill_seqs, decode_context of a step log of vLLM"):
        read(tmp_path / "run", wanted())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv: empty"),
        ("a.csv", "duration_s,sequences\n", "a.csv: no rows"),
        ("a.csv", "x,y\n1,2\n", "missing column sequences, .* of steps; what can be read: a table of engine profile"),
        ("a.csv", "PAR1 and nothing else", "a.csv: cannot be read as Parquet"),
        ("none/b.csv", None, "b.csv: no such file or folder"),
    ],
)
def test_files_that_are_nothing_of_it(name: str, text: str | None, message: str, tmp_path: Path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / name, wanted())
    assert "\n" not in str(caught.value)


def test_an_empty_folder_says_what_there_should_be(tmp_path: Path):
    with pytest.raises(ValueError, match="nothing in this folder that could be read; what can be read"):
        read(tmp_path, wanted())


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"sequences": 1.5}, "line 4: sequences is 1.5; it must be a whole number"),
        ({"decode_tokens": 7}, r"line 4: 4 sequences, but 7 decodes \(decode_tokens\) and 0 parts of prompts"),
    ],
)
def test_a_batch_that_cannot_be_is_told_with_its_line(tmp_path: Path, row: dict, what: str):
    path = write_profile(tmp_path / "mine.csv", [step(1, 10), step(2, 10), step(4, 10)])
    frame = pd.read_csv(path).astype(float)
    for name, value in row.items():
        frame.loc[2, name] = value
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match=what):
        read(path, wanted())


def test_a_name_that_promises_parquet_and_a_file_that_is_none(tmp_path: Path):
    path = tmp_path / "profile.parquet"
    path.write_bytes(b"\x00\x01 whatever")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read(path, wanted())
