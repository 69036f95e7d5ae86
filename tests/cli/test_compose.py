"""What becomes of overrides: presets, Hydra's grammar, and one line for every mistake."""

import pytest

from twin.cli.compose import compose
from twin.cli.errors import UserError
from twin.cli.options import check_options


def values(*overrides: str) -> dict:
    return compose(list(overrides)).values


def complaint(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        check_options(values(*overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_those_of_vllm():
    config = values()
    assert config["policy"]["name"] == "fcfs"
    assert config["scheduler"] == {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "async_scheduling": True,
        "scheduler_reserve_full_isl": True,
        "threshold_spares_lone_request": True,
        "victim_skips_next": False,
        "self_victim_ends_phase": True,
        "foresee_last_token": True,
        "abort_before_update": True,
    }
    assert config["cache"]["block_size"] == 16 and config["cache"]["gpu_memory_utilization"] == 0.9
    assert config["cache"]["enable_prefix_caching"] is True and config["cache"]["watermark"] == 0.0
    check_options(config)


@pytest.mark.parametrize(
    ("system", "policy", "mode", "asynchronous", "chunked", "prefix_caching", "watermark", "bandwidth"),
    [
        ("vllm", "fcfs", "recompute", True, True, True, 0.0, 25.0),
        ("vllm_v0", "prefill_first", "swap", False, False, False, 0.01, 25.0),
        ("engine", "fcfs", "recompute", False, True, True, 0.0, 25.0),
        ("textbook", "fcfs", "recompute", False, True, False, 0.0, None),
    ],
)
def test_a_system_is_a_preset(system, policy, mode, asynchronous, chunked, prefix_caching, watermark, bandwidth):
    config = values(f"system={system}")
    assert (config["policy"]["name"], config["policy"]["preemption_mode"]) == (policy, mode)
    assert config["scheduler"]["async_scheduling"] is asynchronous
    assert config["scheduler"]["enable_chunked_prefill"] is chunked
    assert config["cache"]["enable_prefix_caching"] is prefix_caching
    assert config["cache"]["watermark"] == watermark
    assert config["swap"]["bandwidth_gib_s"] == bandwidth


@pytest.mark.parametrize(
    "override",
    [
        "policy=static",
        "policy.preemption_mode=auto",
        "scheduler.enable_chunked_prefill=true",
        "cache.watermark=0.02",
        "cache.enable_prefix_caching=true",
        "swap.bandwidth_gib_s=10",
    ],
)
@pytest.mark.parametrize("system_first", [True, False])
def test_the_command_line_overrides_a_preset_in_any_order(override, system_first):
    words = ["system=vllm_v0", override] if system_first else [override, "system=vllm_v0"]
    key, _, value = override.partition("=")
    section, _, option = (f"{key}.name" if key == "policy" else key).partition(".")
    assert str(values(*words)[section][option]).lower() == value


def test_a_policy_is_a_name_and_its_parameters_are_added():
    config = values("policy=orca", "policy.reserve=pow2")
    assert config["policy"]["name"] == "orca" and config["policy"]["reserve"] == "pow2"


def test_hydra_users_find_what_they_know():
    composed = compose(["hydra.run.dir=out/${policy.name}-${seed}", "seed=3", "++slo.ttft_s=2", "hydra/job_logging=none"])
    assert str(composed.run_dir) == "out/fcfs-3" and composed.given("hydra.run.dir")
    assert composed.values["slo"]["ttft_s"] == 2 and "hydra" not in composed.values


def test_distributions_need_no_quotes():
    trace = values("trace=synthetic", "trace.arrivals=gamma(8,cv=2)", "trace.output_tokens=choice(1:0.5,200:0.5)")["trace"]
    assert trace["arrivals"] == "gamma(8,cv=2)" and trace["output_tokens"] == "choice(1:0.5,200:0.5)"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("system=vlm", ["system=vlm", "vllm", "textbook"]),
        ("sytem=vllm", ["sytem", "system"]),
        ("scheduler.max_num_seq=3", ["scheduler.max_num_seq:", "did you mean scheduler.max_num_seqs"]),
        ("cachee.block_size=3", ["cachee.block_size", "did you mean cache"]),
        ("latency.base_s=1", ["latency.base_s", "latency=linear"]),
        ("cache=null", ["cache=null", "default"]),
        ("seed=1,2", ["seed=1,2", "sweep"]),
        ("policy=fcfs,static", ["policy=fcfs,static", "sweep"]),
        ("-m policy=fcfs,static", ["-m", "twin run"]),
        ("--fast", ["--fast", "key=value"]),
        ("cache", ["cache:", "key=value"]),
        ("=3", ["=3", "key=value"]),
        ("seed=[1,2", ["seed=[1,2", "key=value"]),
        ("seed=f(3)", ["seed=f(3)", "f"]),
        ("seed=${nope}", ["seed", "nope"]),
        ("~nope", ["nope", "no such option"]),
        ("~cache.watermark", ["cache.watermark", "missing"]),
        ("~trace", ["trace", "missing", "synthetic"]),
        ("~seeds", ["seeds", "missing"]),
        ("~policy", ["policy.name", "missing"]),
        ("~predictor", ["predictor.name", "missing"]),
        ("hydra/launcher=nope", ["hydra/launcher=nope", "basic"]),
        ("scheduler.max_num_seqs=0", ["scheduler.max_num_seqs=0", "at least 1"]),
        ("scheduler.max_num_seqs=true", ["scheduler.max_num_seqs=true", "integer"]),
        ("cache.block_size=0", ["cache.block_size=0", "at least 1"]),
        ("cache.num_gpu_blocks=abc", ["cache.num_gpu_blocks=abc", "integer"]),
        ("cache.gpu_memory_utilization=1.5", ["cache.gpu_memory_utilization=1.5", "share"]),
        ("cache.watermark=1", ["cache.watermark=1", "below 1"]),
        ("cache.allocator=page", ["cache.allocator=page", "paged or contiguous"]),
        ("swap.bandwidth_gib_s=nan", ["swap.bandwidth_gib_s=nan", "a number of at least 1e-06"]),
        ("seeds=0", ["seeds=0", "at least 1"]),
        ("+foo=1", ["foo: no such option", "scheduler"]),
        ("++foo=1", ["foo: no such option", "scheduler"]),
        ("+cache.blocksize=1", ["cache.blocksize: no such option; did you mean cache.block_size"]),
        ("++swap.latency={a:1}", ["swap.latency: no such option"]),
        ("+mine.note=x", ["mine.note: no such option"]),
        ("experiment=seats_and_budget", ["experiment: no such option", "scheduler"]),  # a group of conf/ of another command
        ("+experiment=seats_and_budget", ["experiment: no such option", "scheduler"]),
        ("capacity=default", ["capacity: no such option", "scheduler"]),
        ("hydra=default", ["hydra: no such option", "scheduler"]),
        ("hydra.run.dir=", ["hydra.run.dir: empty"]),
        ("hydra.run.dir=null", ["hydra.run.dir=null"]),
        ("cache.num_gpu_blocks=100000000000", ["cache.num_gpu_blocks=100000000000", "at most 134,217,728"]),
        (f"cache.num_gpu_blocks=1{'0' * 30}", ["cache.num_gpu_blocks=", "at most 134,217,728"]),
        (f"cache.num_gpu_blocks=1{'0' * 5000}", ["cache.num_gpu_blocks"]),
        ("cache.num_cpu_blocks=100000000000", ["cache.num_cpu_blocks=100000000000", "at most 134,217,728"]),
        ("cache.swap_space_gib=1e30", ["cache.swap_space_gib=1e+30", "at most"]),
        ("cache.swap_space_gib=1e300", ["cache.swap_space_gib=1e+300", "at most"]),
        ("cache.block_size=99999999999", ["cache.block_size=99999999999", "at most 65,536"]),
        ("scheduler.max_num_seqs=9999999999", ["scheduler.max_num_seqs=9999999999", "at most"]),
        ("swap.per_copy_s=1e308", ["swap.per_copy_s=1e+308", "at most"]),
        ("swap.per_copy_s=inf", ["swap.per_copy_s=inf", "at most"]),
        ("swap.bandwidth_gib_s=1e-300", ["swap.bandwidth_gib_s=1e-300", "at least"]),
        ("latency=linear latency.base_s=1e308", ["latency.base_s=1e+308", "at most"]),
        ("seed=-1", ["seed=-1", "at least 0"]),
        ("warmup_s=-1", ["warmup_s=-1", "at least 0"]),
        ("output.figures=maybe", ["output.figures=maybe", "true or false"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option_and_the_right_ones(words, names):
    message = complaint(*words.split())
    for name in names:
        assert name in message
