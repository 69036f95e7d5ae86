"""Acceptance cases that other files do not name, on the real engine."""

import numpy as np
import pytest

from engine.attention.torch_backend import TorchAttention
from engine.errors import EngineError
from engine.model.load import load_model
from engine.offline import Engine
from engine.sampling.params import SamplingParams
from engine.tiny import TINY
from twin.core import Limits, Rules
from twin.results.record import Record


def engine(limits: Limits, rules: Rules | None = None) -> Engine:
    made = Engine(load_model(TINY), limits, rules=rules, attention=TorchAttention())
    made.runner.cache.poison()
    return made


def prompt(length: int, start: int = 1) -> list[int]:
    return [(start + 7 * index) % TINY.vocab for index in range(length)]


def test_live_03_the_spare_block_is_nobodys() -> None:
    """live-03: a tensor of 9 blocks of 16 is a pool of 8, 128 tokens: of 128 tokens one more is yielded, 129 are refused."""
    small = engine(Limits(8, block_size=16, max_model_len=200))
    assert small.runner.cache.data.shape[2] == 9 and small.runner.cache.num_blocks == 8
    once = SamplingParams(max_tokens=1, ignore_eos=True)
    fits, does_not = small.generate([prompt(128), prompt(129)], once)
    assert fits.samples[0].status == "finished" and len(fits.samples[0].tokens) == 1
    assert does_not.samples[0].status == "rejected" and does_not.samples[0].tokens == []
    assert does_not.samples[0].reason == "129 tokens need 9 blocks, num_gpu_blocks=8"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_live_09_one_victim_is_enough_for_one_block(asynchronous: bool) -> None:
    """live-09: four requests of 4 tokens in 4 of 5 blocks; each needs a second one in the same step, and there is one."""
    made = engine(Limits(5, block_size=4, max_model_len=32), Rules(async_scheduling=asynchronous))
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    outputs = made.generate([prompt(4, start) for start in range(4)], params)
    assert [len(output.samples[0].tokens) for output in outputs] == [3] * 4
    preempted = made.last_run.steps["preempted"]
    assert preempted.max() == 2  # of four that need a block: one takes the free one, one more for each victim
    roomy = engine(Limits(50, block_size=4, max_model_len=32)).generate([prompt(4, start) for start in range(4)], params)
    assert [output.samples[0].tokens for output in outputs] == [output.samples[0].tokens for output in roomy]


def test_met_01_a_token_that_ends_a_request_ends_its_time_per_token_too() -> None:
    """met-01: of many tokens asked for few come; TPOT divides by those that came."""
    made = engine(Limits(40, block_size=4, max_model_len=128))
    tokens = made.generate([prompt(9)], SamplingParams(temperature=1.0, max_tokens=60, ignore_eos=True))[0].samples[0].tokens
    end = next(place for place in range(2, 60) if tokens[place] not in tokens[:place])  # its first appearance ends it
    stops = SamplingParams(temperature=1.0, max_tokens=60, stop_token_ids=(tokens[end],), ignore_eos=True)
    (output,) = made.generate([prompt(9)], stops)
    assert (output.samples[0].reason, output.samples[0].tokens) == ("stop", tokens[: end + 1])
    requests = Record(**vars(made.last_run)).requests
    assert requests["generated_tokens"][0] == end + 1 and requests["output_tokens"][0] == 60
    spent = requests["finish_s"][0] - requests["first_token_s"][0]
    assert requests["tpot_s"][0] == pytest.approx(spent / end)


def test_met_03_requests_of_one_token_have_no_time_per_token() -> None:
    made = engine(Limits(40, block_size=4, max_model_len=128))
    made.generate([prompt(5), prompt(6)], SamplingParams(max_tokens=1, ignore_eos=True))
    record = Record(**vars(made.last_run))
    assert np.isnan(record.requests["tpot_s"]).all() and len(record.itl_s) == 0
    assert (record.requests["ttft_s"] == record.requests["e2e_s"]).all()


def test_blk_07_a_hundred_cancelled_requests_leave_nothing() -> None:
    """blk-07: each is cancelled at a random time, some never; everybody ends once, and the run asserts a whole pool."""
    made = engine(Limits(24, block_size=4, num_host_blocks=12, max_num_seqs=5, max_model_len=64), Rules("swap"))
    draw = np.random.default_rng(5)
    prompts = [prompt(int(draw.integers(1, 20)), row) for row in range(100)]
    params = [SamplingParams(max_tokens=int(draw.integers(1, 12)), ignore_eos=True) for _ in prompts]
    arrival_s = np.sort(draw.uniform(0, 0.5, 100)).tolist()
    abort_s = [float(time_s + draw.exponential(0.05)) if draw.random() < 0.7 else None for time_s in arrival_s]
    outputs = made.generate(prompts, params, arrival_s, abort_s)
    statuses = [output.samples[0].status for output in outputs]
    assert set(statuses) <= {"finished", "aborted"} and len(statuses) == 100
    for output, wanted in zip(outputs, params, strict=True):
        done, asked = output.samples[0], wanted.max_tokens
        assert len(done.tokens) == asked if done.status == "finished" else len(done.tokens) <= asked


def test_what_no_model_can_take_is_one_line() -> None:
    made = engine(Limits(40, block_size=4, max_model_len=128))
    params = SamplingParams(max_tokens=2, ignore_eos=True)
    for prompts, given, arrival_s, line in [
        ([[]], params, None, "generate: prompt 0 is empty; it needs a token at least"),
        ([[1], [512]], params, None, "generate: prompt 1 holds token 512; the model knows 0 to 511"),
        ([[-1]], params, None, "generate: prompt 0 holds token -1; the model knows 0 to 511"),
        (
            [[1]], SamplingParams(stop_token_ids=(9999,)), None,
            "generate: stop_token_ids of prompt 0 holds token 9999; the model knows 0 to 511",
        ),
        ([[1], [2]], params, [1.0, 0.0], "generate: arrival_s must ascend, a time for each prompt"),
        ([[1], [2]], [params], None, "generate: 2 prompts and 1 sampling parameters"),
    ]:  # fmt: skip
        with pytest.raises(EngineError) as caught:
            made.generate(prompts, given, arrival_s)
        assert str(caught.value) == line
