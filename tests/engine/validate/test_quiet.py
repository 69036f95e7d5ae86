"""What is asked of the machine while steps are measured, and given back."""

import gc
import os

import pytest

from engine.validate.quiet import core_for, pinned, uncollected


def test_no_garbage_is_looked_for_meanwhile():
    assert gc.isenabled()
    with pytest.raises(KeyError), uncollected():
        assert not gc.isenabled() and gc.get_freeze_count() > 0
        raise KeyError
    assert gc.isenabled() and gc.get_freeze_count() == 0


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins nobody")
def test_pinned_and_free_again():
    before = os.sched_getaffinity(0)
    with pinned(max(before)):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before
    with pinned(None):
        assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    "device, threads, asynchronous, pin, pinned",
    [("cpu", 1, False, True, True), ("cpu", 2, False, True, False), ("cpu", None, False, True, False),
     ("cpu", 1, True, True, False), ("cuda", 1, False, True, False), ("cpu", 1, False, False, False)],
)  # fmt: skip
def test_only_an_engine_that_computes_where_it_schedules_stays_on_one_core(device, threads, asynchronous, pin, pinned):
    config = {"engine": {"threads": threads}, "scheduler": {"async_scheduling": asynchronous}, "validate": {"pin": pin}}
    assert (core_for(config, device) is not None) == (pinned and hasattr(os, "sched_getaffinity"))
