"""`twin plan`: the memory of a model on a GPU."""

import json

import pytest

from twin.cli.main import main


def numbers(capsys: pytest.CaptureFixture, *words: str) -> dict:
    assert main(["plan", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_numbers_of_llama_8b_by_hand(capsys):
    plan = numbers(capsys, "cache.gpu_memory_utilization=0.8")
    assert plan["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2 and plan["block_bytes"] == 16 * 131072
    assert plan["parameters"] == 8_030_261_248 and plan["weight_bytes"] == 2 * 8_030_261_248
    left = plan["usable_bytes"] - plan["weight_bytes"] - plan["activation_bytes"] - plan["reserve_bytes"]
    assert plan["num_gpu_blocks"] == left // plan["block_bytes"] - 1  # vLLM's null block
    assert plan["concurrent_requests"]["4096"] == plan["num_gpu_blocks"] // 256
    assert plan["runs_out"]["1024"] is (plan["num_gpu_blocks"] // 64 < 256)


def test_an_fp8_cache_halves_a_block(capsys):
    whole, half = numbers(capsys), numbers(capsys, "cache.kv_cache_dtype=fp8")
    assert half["block_bytes"] * 2 == whole["block_bytes"]


def test_the_table_shows_the_terms_and_what_runs_out_first(capsys):
    assert main(["plan", "model=qwen2.5-14b", "gpu=a100-80g"]) == 0
    printed = capsys.readouterr().out
    for words in ("qwen2.5-14b", "weights", "KV cache of a token", "memory", "256 seats"):
        assert words in printed


def test_a_model_that_does_not_fit_and_a_misspelt_option_are_one_line(capsys):
    for words in (["model=llama3.1-70b"], ["model.max_len=3"], ["--jsno"]):
        assert main(["plan", *words]) == 2
        output = capsys.readouterr()
        assert output.out == "" and len(output.err.splitlines()) == 1
