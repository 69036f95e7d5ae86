"""What a measured step consists of, on a tiny model."""

import gc
from itertools import count

import numpy as np
import pytest
import torch

from engine.attention.fp8 import FP8
from engine.errors import StepFailure
from engine.profile.composition import Composition
from engine.profile.stepper import Stepper, Timing, copies
from engine.step_input import StepInput
from tests.engine.profile.tiny import LIMITS, tiny_runner
from twin.core.batch import Transfer

MIXED = Composition("mixed", 3, 10, 2, 5, 6)
SWAP = Composition("swap", 1, 4, blocks_out=3, blocks_in=2, scattered=True)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def steps_of(stepper: Stepper, *compositions: Composition) -> list[StepInput]:
    """What the model was given."""
    runner, given = stepper.executor.runner, []
    logits = runner.logits
    runner.logits = lambda step, previous: given.append(step) or logits(step, previous)
    for composition in compositions:
        stepper.measure(composition)
    return given


def test_the_step_is_what_the_composition_says():
    """Three decodes at 10, which take 3 blocks of 4 each, and two chunks of 5 after 6 (11 tokens: 3 blocks)."""
    (step,) = steps_of(Stepper(tiny_runner(), LIMITS), MIXED)
    assert step.query_lens == [1, 1, 1, 5, 5] and step.contexts == [10, 10, 10, 11, 11] and step.num_decodes == 3
    assert step.positions.tolist() == [9, 9, 9, *range(6, 11), *range(6, 11)]
    assert step.logit_rows.tolist() == [0, 1, 2, 7, 12]  # everybody gets a token
    assert step.block_tables.shape == (5, 3)
    blocks = step.block_tables.ravel().tolist()
    assert len(set(blocks)) == 15 and min(blocks) >= 0 and max(blocks) < LIMITS.num_blocks
    assert step.slots[0] == step.block_tables[0, 2] * 4 + 1


def test_blocks_and_tokens_differ_from_step_to_step_and_lie_scattered():
    one, other = steps_of(Stepper(tiny_runner(), LIMITS), MIXED, MIXED)
    assert one.block_tables.tolist() != other.block_tables.tolist()
    assert len(set(one.token_ids.tolist())) > 3
    assert (np.diff(one.block_tables.ravel()) != 1).any()


def test_the_seed_decides_the_blocks():
    tables = [steps_of(Stepper(tiny_runner(), LIMITS, seed), MIXED)[0].block_tables.tolist() for seed in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]


@pytest.mark.parametrize("scattered", [False, True])
def test_blocks_move_and_belong_to_nobody_in_the_step(scattered: bool):
    runner = tiny_runner()
    stepper = Stepper(runner, LIMITS)
    moved = []
    apply = runner.cache.apply
    runner.cache.apply = lambda transfers: moved.extend(transfers) or apply(transfers)
    before = runner.cache.data.clone()
    runner.cache.host_data.normal_(generator=torch.Generator().manual_seed(5))
    host_before = runner.cache.host_data.clone()
    (step,) = steps_of(stepper, Composition("swap", 1, 4, blocks_out=3, blocks_in=2, scattered=scattered))
    assert [transfer.way for transfer in moved] == ["out"] * 3 + ["in"] * 2
    blocks = [transfer.source if transfer.way == "out" else transfer.target for transfer in moved]
    assert len(set(blocks)) == 5 and not set(blocks) & set(step.block_tables.ravel().tolist())
    for way, source, target in moved:
        if way == "out":
            assert torch.equal(runner.cache.host_data[target], before[:, :, source])
        else:
            assert torch.equal(runner.cache.data[:, :, target], host_before[source])


def test_consecutive_blocks_cross_in_one_copy_each_way():
    stepper = Stepper(tiny_runner(), LIMITS)
    assert stepper.measure(Composition("swap", 1, 4, blocks_out=5)).copies == 1
    assert stepper.measure(Composition("swap", 1, 4, blocks_out=5, blocks_in=4)).copies == 2
    assert stepper.measure(Composition("swap", 1, 4, blocks_in=12, scattered=True)).copies > 2
    assert stepper.measure(MIXED).copies == 0


def test_copies_by_hand():
    """4 5 6 go to 0 1 2, 8 to 3, and 9 comes from 9: three runs."""
    transfers = [Transfer("out", *pair) for pair in ((4, 0), (5, 1), (6, 2), (8, 3))] + [Transfer("in", 9, 9)]
    assert copies(transfers) == 3


def test_times_are_read_before_the_launch_after_it_with_the_tokens_and_at_rest():
    """The clock counts its readings."""
    readings = count()
    timing = Stepper(tiny_runner(), LIMITS, clock=lambda: float(next(readings))).measure(MIXED)
    assert timing._replace(device_s=0.0) == Timing(2.0, 0.0, 1.0, 3.0, 0)


@pytest.mark.parametrize(
    "composition", [MIXED, SWAP, Composition("decode", 8, 30), Composition("prefill", prompts=1, chunk=32)]
)
def test_the_device_is_busy_for_a_part_of_the_step(composition: Composition):
    """cal-03."""
    timing = Stepper(tiny_runner(), LIMITS).measure(composition)
    assert 0 < timing.device_s <= timing.duration_s <= timing.settled_s
    assert 0 < timing.launch_s <= timing.duration_s


def test_nothing_is_left_over():
    stepper = Stepper(tiny_runner(), LIMITS)
    for composition in (MIXED, SWAP):
        stepper.measure(composition)
    executor = stepper.executor
    assert not executor.in_flight and not executor.chosen and not executor.sequences._of
    assert not executor.inputs.tables._row and gc.isenabled()


def test_a_step_without_memory_fails_and_the_next_one_does_not(monkeypatch: pytest.MonkeyPatch):
    runner = tiny_runner()
    stepper = Stepper(runner, LIMITS)

    def full(step: StepInput, previous: torch.Tensor | None) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "logits", full)
        with pytest.raises(StepFailure, match="out of memory"):
            stepper.measure(MIXED)
    assert stepper.measure(MIXED).duration_s > 0
    assert not stepper.executor.sequences._of and gc.isenabled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, FP8])
def test_the_cache_holds_random_numbers(dtype: torch.dtype):
    cache = Stepper(tiny_runner(dtype), LIMITS).cache
    values = cache.data.float()
    assert values.isfinite().all()
    assert abs(float(values.mean())) < 0.05 and abs(float(values.std()) - 1) < 0.05
