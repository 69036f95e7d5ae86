"""Start-up logs: what vLLM 0.32 printed here, and lines in the words of other versions."""

from pathlib import Path

import pytest

from twin.calibrate.server.findings import Server, server
from twin.calibrate.server.reading import read_served
from twin.calibrate.server.startup_log import PRESETS, read_startup_log

REAL = Path(__file__).parent / "vllm_0.32.txt"
ROOT = Path(__file__).parents[3]

# The lines of vllm/entrypoints/utils.py, v1/engine/core.py, v1/core/kv_cache_utils.py and config/ of vLLM 0.11 on a GPU.
OF_0_11 = """\
(APIServer pid=1) INFO 10-10 12:00:00 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 10-10 12:00:00 [utils.py:233] non-default args: {'model_tag': 'org/model-8B', \
'model': 'org/model-8B', 'max_model_len': 4000, 'tensor_parallel_size': 2, 'max_num_seqs': 64, \
'speculative_config': {'max_num_seqs': 3}}
(APIServer pid=1) INFO 10-10 12:00:01 [model.py:1510] Using max model len 4000
(APIServer pid=1) INFO 10-10 12:00:01 [scheduler.py:205] Chunked prefill is enabled with max_num_batched_tokens=2048.
(EngineCore_DP0 pid=2) INFO 10-10 12:00:09 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: \
model='org/model-8B', speculative_config=None, max_seq_len=4000, tensor_parallel_size=2, pipeline_parallel_size=1, \
data_parallel_size=1, kv_cache_dtype=fp8_e4m3, device_config=cuda, enable_prefix_caching=False, \
chunked_prefill_enabled=True, compilation_config={"level":3}
(EngineCore_DP0 pid=2) INFO 10-10 12:00:30 [kv_cache_utils.py:1087] GPU KV cache size: 447,760 tokens
(EngineCore_DP0 pid=2) INFO 10-10 12:00:30 [kv_cache_utils.py:1091] Maximum concurrency for 4,000 tokens per request: 111.94x
"""


def found(path: Path, block_size: int = 16, **given: str) -> Server:
    return server([read_served(path)], {key.replace("__", "."): value for key, value in given.items()}, block_size)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_vllm_0_32_printed():
    """It was started with these; its pool is 96 blocks, of which one is the null block."""
    taken = found(REAL)
    assert set(taken.words) == {
        "system=vllm-0.32",
        "model.max_model_len=1024",
        "cache.block_size=32",
        "cache.num_gpu_blocks=95",
        "cache.kv_cache_dtype=auto",
        "cache.enable_prefix_caching=true",
        "scheduler.max_num_seqs=16",
        "scheduler.max_num_batched_tokens=512",
        "scheduler.async_scheduling=false",  # a CPU
        "scheduler.enable_chunked_prefill=true",
        "parallel.tensor_parallel_size=1",
        "parallel.pipeline_parallel_size=1",
    }
    assert taken.silent == ()
    assert any(line.startswith("scheduler.max_num_seqs=16  (vllm_0.32.txt, line ") for line in taken.lines)


def test_the_words_of_0_11(tmp_path: Path):
    """447,760 tokens are 27,985 blocks of 16. Nothing is said of the block size, nor of seats but in the arguments."""
    taken = found(written(tmp_path / "serve.log", OF_0_11))
    assert set(taken.words) == {
        "system=vllm-0.11",
        "model.max_model_len=4000",
        "cache.num_gpu_blocks=27984",
        "cache.kv_cache_dtype=fp8",
        "cache.enable_prefix_caching=false",
        "scheduler.max_num_seqs=64",
        "scheduler.max_num_batched_tokens=2048",
        "scheduler.async_scheduling=false",
        "scheduler.enable_chunked_prefill=true",
        "parallel.tensor_parallel_size=2",
        "parallel.pipeline_parallel_size=1",
    }
    assert taken.silent == ("cache.block_size",)


def test_a_block_size_that_is_given_makes_other_blocks_of_the_same_tokens(tmp_path: Path):
    taken = found(written(tmp_path / "serve.log", OF_0_11), cache__block_size="80")
    assert "cache.num_gpu_blocks=5596" in taken.words  # 447,760 / 80, less the null block


def test_the_users_own_options_count_and_the_difference_is_said():
    taken = found(REAL, scheduler__max_num_seqs="32", system="vllm-0.21")
    assert not any(word.startswith(("scheduler.max_num_seqs", "system")) for word in taken.words)
    assert any(line.startswith("scheduler.max_num_seqs=32 as given; ") and line.endswith("says 16") for line in taken.lines)
    assert any(line.startswith("system=vllm-0.21 as given; ") and line.endswith("says vllm-0.32") for line in taken.lines)


def test_what_the_log_does_not_say_is_said(tmp_path: Path):
    text = OF_0_11.replace("'max_num_seqs': 64, ", "")
    taken = found(written(tmp_path / "serve.log", text))
    values = {"scheduler": {"max_num_seqs": 256}, "cache": {"block_size": 16}}
    assert taken.told(values)[-2:] == [
        "cache.block_size: not said (block size); 16 stays, unless you give it",
        "scheduler.max_num_seqs: not said (seats); 256 stays, unless you give it",
    ]


@pytest.mark.parametrize(
    ("version", "preset"),
    [
        ("0.11.2", "0.11"),
        ("0.10.1", "0.11"),
        ("0.19.0rc1", "0.21"),
        ("0.27.0", "0.32"),
        ("0.40.1.dev7+gabc", "0.33"),
        ("1.2.0", "0.33"),
    ],
)
def test_the_nearest_preset_is_taken_and_said(tmp_path: Path, version: str, preset: str):
    taken = found(written(tmp_path / "serve.log", OF_0_11.replace("0.11.0", version)))
    assert f"system=vllm-{preset}" in taken.words
    said = [line for line in taken.lines if "nearest preset" in line]
    assert len(said) == (not version.startswith(preset))


def test_the_presets_are_those_of_the_configuration():
    there = sorted(path.stem for path in (ROOT / "conf" / "system").glob("vllm-*.yaml"))
    assert there == [f"vllm-{major}.{minor}" for major, minor in PRESETS]


@pytest.mark.parametrize(
    "banner",
    [
        "vLLM server version 0.33.0, serving model tiny",
        "  \u2584\u2584 \x1b[34m\u2588\x1b[0m  version \x1b[97m0.33.0\x1b[0m",
    ],
)
def test_the_version_in_other_words_and_in_colour(tmp_path: Path, banner: str):
    lines = OF_0_11.replace("0.11.0", "0.33.0").splitlines(keepends=True)
    text = "".join([lines[0][: lines[0].index("]") + 2] + banner + "\n", *lines[1:]])
    taken = found(written(tmp_path / "serve.log", text))
    assert "system=vllm-0.33" in taken.words
    assert any(line.startswith("system=vllm-0.33  (serve.log, line 1: version 0.33.0)") for line in taken.lines)


def test_asynchronous_by_default_since_0_21(tmp_path: Path):
    text = OF_0_11.replace("0.11.0", "0.21.0")
    assert "scheduler.async_scheduling=true" in found(written(tmp_path / "a.log", text)).words
    text += "(APIServer pid=1) INFO 10-10 12:00:01 [vllm.py:886] Asynchronous scheduling is disabled.\n"
    assert "scheduler.async_scheduling=false" in found(written(tmp_path / "b.log", text)).words


def test_what_the_server_took_counts_before_what_it_was_asked_for(tmp_path: Path):
    text = OF_0_11.replace("'max_num_seqs': 64", "'max_num_seqs': 64, 'max_num_batched_tokens': 8192")
    taken = found(written(tmp_path / "serve.log", text))
    assert "scheduler.max_num_batched_tokens=2048" in taken.words
    assert any("asked for 8192" in line and "took 2048" in line for line in taken.lines)


def test_of_several_starts_the_last_counts(tmp_path: Path):
    again = OF_0_11.replace("'max_num_seqs': 64", "'max_num_seqs': 48").replace("0.11.0", "0.21.0")
    taken = found(written(tmp_path / "serve.log", OF_0_11 + again))
    assert {"scheduler.max_num_seqs=48", "system=vllm-0.21"} <= set(taken.words)
    assert any("2 starts" in line for line in taken.lines)


def test_what_is_not_simulated_is_said(tmp_path: Path):
    text = OF_0_11.replace("speculative_config=None", "speculative_config=SpeculativeConfig(method='ngram', k=3)")
    text = text.replace("data_parallel_size=1", "data_parallel_size=4").replace(
        "kv_cache_dtype=fp8_e4m3", "kv_cache_dtype=turbo"
    )
    lines = "\n".join(found(written(tmp_path / "serve.log", text)).lines)
    assert "speculative decoding, which is not simulated" in lines
    assert "data_parallel_size=4; one replica is simulated" in lines
    assert "kv_cache_dtype=turbo is none of ours" in lines


def test_a_policy_that_is_not_vllms_own(tmp_path: Path):
    text = OF_0_11.replace("'max_num_seqs': 64", "'max_num_seqs': 64, 'scheduling_policy': 'priority'")
    assert "policy=priority" in found(written(tmp_path / "serve.log", text)).words


def refused(path: Path) -> str:
    with pytest.raises(ValueError) as raised:
        found(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_log_that_is_cut_off(tmp_path: Path):
    cut = OF_0_11[: OF_0_11.index("'tensor_parallel_size'")]
    message = refused(written(tmp_path / "serve.log", cut.rstrip(", ")))
    assert "serve.log, line 2: cut off" in message
    cut = OF_0_11[: OF_0_11.index("enable_prefix_caching=False")]
    assert "serve.log, line 5: cut off" in refused(written(tmp_path / "serve.log", cut))


@pytest.mark.parametrize("text", [OF_0_11, REAL.read_text()], ids=["0.11", "0.32"])
def test_a_log_that_is_cut_off_anywhere_says_nothing_else(tmp_path: Path, text: str):
    """Fewer options or an error, never another value; but what it was asked for, until it is said what was taken."""
    whole = set(found(written(tmp_path / "whole.log", text)).words)
    refusals = 0
    for end in range(1, len(text), 7):
        try:
            words = found(written(tmp_path / "serve.log", text[:end])).words
        except ValueError as error:
            assert "\n" not in str(error)
            refusals += 1
        else:
            assert set(words) <= whole, text[:end].splitlines()[-1]
    assert 0 < refusals < len(text) / 7


def test_other_files(tmp_path: Path):
    assert "neither a vLLM's start-up log" in refused(written(tmp_path / "a.log", "INFO started\n"))
    assert "says nothing of a vLLM V1" in refused(written(tmp_path / "b.log", "GPU KV cache size: soon\n"))
    assert "no such file" in refused(tmp_path / "c.log")
    assert "a folder, must be a file" in refused(tmp_path)
    assert "a scrape without vllm:cache_config_info" in refused(
        written(tmp_path / "d.prom", "vllm:num_requests_running 1\n")
    )


def test_lines_that_contradict_each_other(tmp_path: Path):
    budget = OF_0_11.splitlines()[3].replace("2048", "4096")
    message = refused(written(tmp_path / "serve.log", OF_0_11 + budget + "\n"))
    assert "max_num_batched_tokens is 2048 by serve.log, line 4" in message and "and 4096 by serve.log, line 8" in message
    found(tmp_path / "serve.log", scheduler__max_num_batched_tokens="2048")


def test_a_scrape_of_another_server_contradicts_the_log(tmp_path: Path):
    log = read_startup_log(tmp_path / "serve.log", OF_0_11)
    info = (
        'vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="True",num_gpu_blocks="27985"} 1.0\n'
    )
    scrape = read_served(written(tmp_path / "one.prom", info))
    with pytest.raises(ValueError, match="cache.enable_prefix_caching is False by serve.log, line 5.*True by one.prom"):
        server([log, scrape], {}, 16)


def test_a_scrape_alone_tells_of_the_cache(tmp_path: Path):
    info = (
        'vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="False",num_gpu_blocks="96"} 1.0\n'
    )
    taken = found(written(tmp_path / "one.prom", info))
    assert set(taken.words) == {
        "cache.block_size=32",
        "cache.num_gpu_blocks=95",
        "cache.kv_cache_dtype=auto",
        "cache.enable_prefix_caching=false",
    }
    assert "system" in taken.silent and "scheduler.max_num_seqs" in taken.silent
