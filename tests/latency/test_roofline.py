"""The roofline: hand calculations from shape and data sheet."""

import dataclasses

import pytest

from tests.latency.shapes import gpu, model
from twin.core.batch import Features
from twin.latency.make import make_latency
from twin.latency.roofline import RooflineLatency

IDEAL = {"compute_efficiency": 1, "attention_efficiency": 1, "memory_efficiency": 1, "host_s": 0, "mixed_s": 0}


def test_one_decode_reads_every_weight_once():
    """Llama-3.1-8B without the input embedding is 7,504,656,384 matrix weights: 15.0 GB at 3,350 GB/s is 4.48 ms."""
    ideal = RooflineLatency(model(), gpu(), **IDEAL)
    assert model().layer_matrix_parameters == 8_030_261_248 - 2 * 128256 * 4096 - 65 * 4096
    read = 2 * (model().layer_matrix_parameters + 128256 * 4096) / 3350e9
    assert ideal.decode_step_s(1, 1) == pytest.approx(read, rel=1e-3)


def test_a_context_token_costs_the_reading_of_its_keys_and_values():
    ideal = RooflineLatency(model(), gpu(), **IDEAL)
    added = ideal.decode_step_s(8, 80_000) - ideal.decode_step_s(8, 8)
    assert added == pytest.approx((80_000 - 8) * 131_072 / 3350e9, rel=1e-9)


def test_a_long_prompt_costs_two_flops_a_weight_and_token():
    ideal = RooflineLatency(model(), gpu(), **IDEAL)
    tokens = 8192
    arithmetic = 2 * model().layer_matrix_parameters * tokens / 989.5e12
    pairs = 4 * 32 * 32 * 128 * tokens * tokens / 2 / 989.5e12
    pointwise = 32 * (8 * 4096 + 3 * 14336) * 2 * tokens / 3350e9
    logits = 128256 * 4096 * 2 / 3350e9  # one row: reading the matrix is what takes time
    step_s = ideal.step_s(Features(1, tokens, 0, tokens, tokens, tokens * tokens / 2, 1))
    assert step_s == pytest.approx(arithmetic + pairs + pointwise + logits, rel=1e-9)


def test_the_knee_lies_where_arithmetic_overtakes_reading():
    """989.5 TFLOP/s over 3,350 GB/s is 295 operations a byte: with 2-byte weights, 295 tokens."""
    ideal = RooflineLatency(model(), gpu(), **IDEAL)
    flat = ideal.decode_step_s(290, 290) - ideal.decode_step_s(280, 280)
    steep = ideal.decode_step_s(310, 310) - ideal.decode_step_s(300, 300)
    assert steep > 4 * flat


def test_smaller_weights_and_smaller_cache_are_read_faster():
    plain = RooflineLatency(model(), gpu(), **IDEAL)
    quantized = RooflineLatency(model(quantization="awq"), gpu(), **IDEAL)
    small_cache = RooflineLatency(dataclasses.replace(model(), kv_cache_dtype="fp8"), gpu(), **IDEAL)
    assert quantized.decode_step_s(1, 1) < 0.36 * plain.decode_step_s(1, 1)
    slope = [m.decode_step_s(1, 100_001) - m.decode_step_s(1, 1) for m in (plain, small_cache)]
    assert slope[0] == pytest.approx(2 * slope[1], rel=1e-9)


def test_host_terms_come_to_the_sum():
    ideal = RooflineLatency(model(), gpu(), **IDEAL)
    real = RooflineLatency(model(), gpu(), **{**IDEAL, "host_s": 0.002, "mixed_s": 0.007})
    prompt = Features(1, 100, 0, 100, 100, 5000.0, 1)
    assert real.decode_step_s(1, 50) - ideal.decode_step_s(1, 50) == pytest.approx(0.002)
    assert real.step_s(prompt) - ideal.step_s(prompt) == pytest.approx(0.009)


def test_two_gpus_halve_the_reading_and_add_all_reduces():
    one = RooflineLatency(model(), gpu(), **IDEAL, all_reduce_latency_s=0)
    two = RooflineLatency(model(), gpu(), **IDEAL, all_reduce_latency_s=0, tensor_parallel_size=2)
    sent = 2 * 32 * 4096 * 2 / (419 * 2**30)  # two a layer; each GPU sends half the vector twice
    assert two.decode_step_s(1, 1) == pytest.approx(one.decode_step_s(1, 1) / 2 + sent, rel=1e-9)
    with pytest.raises(ValueError, match="gives no link_gib_s"):
        RooflineLatency(model("tiny"), gpu("cpu"), tensor_parallel_size=2)


@pytest.mark.parametrize("name", ["h100", "h200", "a100-80g", "rtx-pro-6000", "rtx4090"])
def test_it_lies_within_a_third_of_what_was_measured(name):
    measured = make_latency("fitted", {}, model(), gpu(name))
    roofline = make_latency("roofline", {}, model(), gpu(name))
    for step in (Features(1, 0, 1, 500), Features(128, 0, 128, 100_000), Features(1, 2048, 0, 2048, 2048, 2048 * 1024.0, 1)):
        assert roofline.step_s(step) == pytest.approx(measured.step_s(step), rel=0.33)


def test_an_efficiency_above_one_is_refused():
    with pytest.raises(ValueError, match="memory_efficiency must be above 0 and at most 1"):
        RooflineLatency(model(), gpu(), memory_efficiency=1.2)
