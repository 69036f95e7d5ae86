"""The clock answers everybody but the policy."""

import datetime
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twin.check.watch import Forbidden, Watch

HERE = {str(Path(__file__).parent)}


def test_who_is_watched_is_refused_with_file_and_line():
    words = r"it reads the clock: time\.time\(\) at test_watch\.py:\d+; a policy gets the time as view\.now"
    with Watch(HERE).on() as watch, pytest.raises(Forbidden, match=words):
        time.time()
    assert len(watch.seen) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: time.monotonic(),
        lambda: __import__("datetime", globals()).datetime.now(),
        lambda: __import__("datetime", globals()).date.today(),
        lambda: random.random(),
        lambda: random.Random(),
    ],
)
def test_each_source_is_watched(ask):
    with Watch(HERE).on(), pytest.raises(Forbidden):
        ask()


def test_a_seed_is_welcome_and_gives_the_usual_draws():
    usual = random.Random(7).random()
    with Watch(HERE).on():
        assert random.Random(7).random() == usual


def test_an_extension_module_built_on_datetime_can_be_imported():
    code = "from twin.check.watch import Watch\nwith Watch(set()).on():\n    import pandas\nprint(pandas.Timestamp(0).year)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.strip()) == (0, "1970"), done.stderr


def test_others_notice_nothing_and_afterwards_nobody_does():
    with Watch({"/elsewhere"}).on() as watch:
        assert time.time() > 0 and datetime.datetime.now().year > 2000
    assert watch.seen == []
    with Watch(HERE).on():
        pass
    assert time.time() > 0
