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


def test_a_model_that_does_not_fit_is_one_line_and_what_would(capsys):
    assert main(["plan", "model=llama3.1-70b", "model.max_model_len=4096"]) == 2
    output = capsys.readouterr()
    assert len(output.err.splitlines()) == 1 and "does not fit gpu=h100" in output.err
    rows = [line.split() for line in output.out.splitlines()]
    assert ["cache.kv_cache_dtype=fp8", "none", "0"] in rows  # its weights alone are too large
    held = {row[0]: row[1:3] for row in rows if len(row) > 2}
    assert int(held["parallel.tensor_parallel_size=4"][1]) > int(held["parallel.tensor_parallel_size=2"][1]) > 0
    assert "the model itself does not fit" in output.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["model.max_len=3"], "model.max_len"),
        (["--jsno"], "--jsno"),
        (["plan.requests=0"], "plan.requests=0: must be an integer of at least 1"),
        (["plan.kv_budget_gb=3", "plan.kv_budget_gib=3"], "give one of them"),
        (["plan.kv_use=0.5"], "plan.kv_use: is of a given KV budget"),
        (["plan.kv_budget_gb=3", "plan.kv_use=1.5"], "plan.kv_use=1.5: must be a share"),
    ],
)
def test_a_mistake_is_one_line(words, says, capsys):
    assert main(["plan", *words]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1 and says in output.err


def test_what_each_change_brings_is_what_it_brings_when_it_is_made(capsys):
    words = ("model=qwen2.5-14b", "gpu=a100-80g", "plan.request_tokens=4096", "plan.requests=100")
    plan = numbers(capsys, *words)
    assert plan["fits"] is False and plan["concurrent_requests"]["4096"] == plan["num_gpu_blocks"] // 256 < 100
    tried = {tuple(change["options"]) for change in plan["would_fit"]}
    assert {("parallel.tensor_parallel_size",), ("cache.kv_cache_dtype",), ("model.quantization",)} <= tried
    assert ("model.max_model_len",) in tried
    for change in plan["would_fit"]:
        options = [f"{name}={value}" for name, value in change["options"].items()]
        made = numbers(capsys, *words, *options)
        assert made["num_gpu_blocks"] == change["num_gpu_blocks"], options
        length = str(change["options"].get("model.max_model_len", 4096))
        assert made["concurrent_requests"][length] == change["concurrent_requests"], options
        assert change["fits"] is (change["concurrent_requests"] >= 100)


def test_the_shortest_of_the_changes_is_the_longest_request_of_which_so_many_fit(capsys):
    plan = numbers(capsys, "plan.requests=1000", "plan.request_tokens=4096")
    longest = plan["would_fit"][-1]["options"]["model.max_model_len"]
    assert plan["num_gpu_blocks"] // (longest // 16) >= 1000 > plan["num_gpu_blocks"] // (longest // 16 + 1)


def test_where_no_request_fits_the_longest_that_does_is_named(capsys):
    plan = numbers(capsys, "gpu=a10g")
    assert plan["concurrent_requests"]["131072"] == 0 and plan["kv_tokens"] < 131_072
    shorter = [change for change in plan["would_fit"] if "model.max_model_len" in change["options"]]
    assert [change["options"]["model.max_model_len"] for change in shorter] == [
        plan["kv_tokens"], plan["num_gpu_blocks"] // 256 * 16]  # fmt: skip
    assert shorter[0]["concurrent_requests"] == 1 and shorter[1]["fits"] is True


TEXTBOOK = ("model=llama2-7b", "model.layers=32", "model.hidden=5120", "model.heads=40", "model.kv_heads=40",
            "model.head_dim=128")  # fmt: skip


def test_textbook_kv_bytes_of_a_token(capsys):
    """2 x 32 layers x 40 KV heads x 128 x 2 bytes = 655,360 bytes: 0.655 MB, 0.625 MiB."""
    assert numbers(capsys, *TEXTBOOK, "plan.kv_budget_gb=1")["kv_bytes_per_token"] == 655_360
    assert main(["plan", *TEXTBOOK, "plan.kv_budget_gb=1"]) == 0
    assert "655,360 bytes = 0.6554 MB (0.625 MiB)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("budget", "requests"),
    [
        (("plan.kv_budget_gb=53.6", "plan.kv_bytes_per_token=625000"), 20),  # 53.6 / (0.625 MB x 4096 = 2.56 GB) = 20.9
        (("plan.kv_budget_gb=53.6", "plan.kv_bytes_per_token=655360"), 19),  # 0.625 MiB in GB: 2.684 GB, 19.97
        (("plan.kv_budget_gib=53.6", "plan.kv_bytes_per_token=655360"), 21),  # all in units of two: 2.5 GiB, 21.4
    ],
)
def test_textbook_requests_in_a_budget(budget, requests, capsys):
    plan = numbers(capsys, *budget, "plan.request_tokens=4096", "plan.requests=20")
    assert plan["concurrent_requests"] == {"4096": requests} and plan["fits"] is (requests >= 20)


def test_textbook_what_better_use_brings(capsys):
    """60 GB of which 40 % hold tokens, then 90 %: 2.25 times the tokens."""
    words = (*TEXTBOOK, "plan.kv_budget_gb=60", "plan.request_tokens=1000")
    poor, good = (numbers(capsys, *words, f"plan.kv_use={use}") for use in (0.4, 0.9))
    assert good["kv_tokens"] / poor["kv_tokens"] == pytest.approx(2.25, rel=1e-4)
    assert (poor["concurrent_requests"], good["concurrent_requests"]) == ({"1000": 36}, {"1000": 82})  # 24 and 54 GB


def test_both_units_are_named_wherever_bytes_are_printed(capsys):
    assert main(["plan", "model=qwen2.5-14b", "gpu=a100-80g", "plan.request_tokens=4096"]) == 0
    printed = capsys.readouterr().out
    amounts = [line for line in printed.splitlines() if "GB" in line or "GiB" in line]
    assert len(amounts) >= 7 and all("GB (" in line and "GiB)" in line for line in amounts)


def test_a_request_that_the_model_does_not_take_is_named(capsys):
    assert numbers(capsys, "model.max_model_len=8192", "plan.request_tokens=8192")["warnings"] == []
    (said,) = numbers(capsys, "model.max_model_len=8192", "plan.request_tokens=8193")["warnings"]
    assert "plan.request_tokens=8193" in said and "model.max_model_len=8192" in said
