"""What the source of a policy gives away, and what is no offence."""

import pytest

from twin.check.source import complaints


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("import time\nnow = time.time()\n", 2, "reads the clock: time.time"),
        ("import time as t\nread = t.monotonic\n", 2, "reads the clock: time.monotonic"),
        ("from time import perf_counter as tick\n\ntick()\n", 3, "reads the clock: time.perf_counter"),
        ("import datetime\ndatetime.datetime.now()\n", 2, "reads the clock: datetime.datetime.now"),
        ("from datetime import date\ndate.today()\n", 2, "reads the clock: datetime.date.today"),
        ("from random import shuffle\nshuffle([])\n", 2, "draws without a seed: random.shuffle"),
        ("from random import Random\nrng = Random()\n", 2, "draws without a seed: random.Random"),
        ("import numpy as np\nnp.random.rand()\n", 2, "draws without a seed: numpy.random.rand"),
        ("import os\nos.urandom(8)\n", 2, "draws without a seed: os.urandom"),
        ("view._state.running\n", 1, "reaches into a view, ._state"),
        ("getattr(request, '_request')\n", 1, "reaches for '_request'"),
        ("import gc\n", 1, "imports gc"),
        ("from twin.core import request\n", 1, "imports twin.core"),
        ("object.__setattr__(request, 'priority', 1)\n", 1, "uses object.__setattr__"),
    ],
)
def test_what_is_found_with_its_line(text: str, line: int, words: str):
    assert [(at, what.partition(";")[0].partition(":")[0]) for at, what in complaints(text)][0][0] == line
    assert any(what.startswith(words) for _, what in complaints(text))


@pytest.mark.parametrize(
    "text",
    [
        "from random import Random\nrng = Random(7)\nrng.random()\n",
        "import random\nrng = random.Random(f'{7} {request.id}')\n",
        "def __init__(self): self._state = {}\n",  # one's own
        "from twin.policy import Policy\nimport heapq\nfrom math import ceil\n",
        "time = view.now\ntime.time\n",  # no module
    ],
)
def test_what_is_no_offence(text: str):
    assert list(complaints(text)) == []
