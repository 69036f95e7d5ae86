"""The bound of the virtual token counter: its formula, the services recounted step by step, and a small run."""

import pandas
import pytest

from twin.notebook import run as simulated
from twin.reproduce.experiment import load
from twin.reproduce.own_trace import folder_of
from twin.reproduce.vtc_bound import FEW, MANY, backlogged, bound, clients, run, services

SMALL = {"rates_per_minute": [90, 180], "prompt_tokens": 64, "output_tokens": 64, "duration_s": 60}


def test_the_bound_of_the_artifacts_overload_is_forty_thousand():
    """2 max(1 · 256, 2 · 10,000)."""
    assert bound(1, 256, 2, 10_000) == 40_000


def test_backlogged_from_the_last_time_that_a_queue_was_empty_until_one_has_nobody_left():
    """few: its first was taken at 1, its second comes at 2. many: one waits from 0.5 on, the last until 8."""
    few = pandas.DataFrame({"arrival_s": [0.0, 2.0, 3.0], "first_scheduled_s": [1.0, 4.0, 9.0], "user": FEW})
    many = pandas.DataFrame({"arrival_s": [0.5, 1.0, 1.5], "first_scheduled_s": [2.0, 5.0, 8.0], "user": MANY})
    assert backlogged(pandas.concat([few, many])) == (2.0, 8.0)


@pytest.mark.parametrize("policy", ["vtc", "fcfs"])
def test_services_are_those_that_the_steps_gave(policy):
    experiment = load("vtc_bound")
    with folder_of({"clients": clients(SMALL)}) as play:
        options = {**experiment.options, **play["clients"], "cache.num_gpu_blocks": 960}
        result = simulated(
            options | {"policy": policy, "output.decisions": True, "latency": "linear", "latency.base_s": 0.1}
        )
    table = result.requests.set_index("request_id")
    begin_s, stop_s = backlogged(result.requests)
    got, apart = {FEW: 0, MANY: 0}, []
    for step in result.decisions:
        if apart and step["end_s"] > stop_s + 1e-9:
            break
        for name, tokens in step["scheduled"].items():
            got[table.user[name]] += 2 + (64 if tokens == 64 else 0)
        if step["end_s"] >= begin_s:
            apart.append((got[FEW], got[MANY]))
    ours = services(result)
    assert (ours.few, ours.many) == (apart[-1][0] - apart[0][0], apart[-1][1] - apart[0][1])
    differences = [few - many for few, many in apart]
    assert ours.apart == max(differences) - min(differences)
    assert ours.few > 0 < ours.many


def test_two_minutes_of_overload_stay_within_the_bound_and_are_shared_almost_equally():
    """Each is ahead by the bound at most, which is a third of what they get in this time."""
    differ, without, ratio, ratio_without = run(load("vtc_bound", ["duration_s=120", "pool_tokens=4000", "jobs=1"]))
    assert differ.published == "<= 16,000" and differ.size
    assert without.direction and ratio.direction
    assert abs(float(ratio.ours) - 1) < 0.15 and abs(float(ratio_without.ours) - 2) < 0.1
