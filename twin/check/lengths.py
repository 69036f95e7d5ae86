"""Whether a policy knows the true output length: the same requests, to the eye, with other hidden lengths.

Until the first of them ends in one of the two runs, nothing that a policy may see differs, so its decisions may not.
Predictions are made up, the same in both.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twin.check.playing import first_unlike, in_words, play
from twin.check.result import Result, Tell
from twin.check.subject import Subject
from twin.predictor import Predictor

PAIRS, QUICK_PAIRS = 8, 4
LIMIT = 120  # tokens that each may ask for at most


def check(subject: Subject, quick: bool, tell: Tell) -> Result:
    """Pairs of systems that differ in what is hidden alone."""
    result = Result("hidden lengths")
    for number in range(QUICK_PAIRS if quick else PAIRS):
        name = f"lengths-{number}"
        result.cases += 1
        one, other = (subject.adapted(content) for content in _pair(Random(name)))
        tell(name, one)
        mine, theirs = (play(subject, content, predictor=_MadeUp()) for content in (one, other))
        if mine.error is not None or theirs.error is not None:
            continue  # another check says it
        end = min(_first_end(mine.rows), _first_end(theirs.rows))
        place = first_unlike(mine.rows[:end], theirs.rows[:end])
        if place is None or first_unlike(mine.rows, play(subject, one, predictor=_MadeUp()).rows) is not None:
            continue  # or it is not even the same under the same lengths, which another check says
        here, there = in_words(mine.rows, place), in_words(theirs.rows, place)
        what = f"step {place + 1}: {here}, but {there} where hidden lengths differ, and nothing else"
        result.fail(f"it knows the true output length; {what}", name, one)
        break
    return result


def _pair(rng: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    rows = range(rng.choice((10, 20)))
    together = rng.random() < 0.5
    visible = []
    for row in rows:
        arrival_s = 0.0 if together else round(rng.random() * 8, 3)
        request = {"id": f"r{row:02d}", "arrival_s": arrival_s, "prompt_tokens": rng.randint(1, 40), "max_tokens": LIMIT}
        visible.append(request | {"user": f"user-{rng.randint(0, 3)}", "priority": rng.randint(0, 2)})
    lengths = [rng.randint(12, 60) for _ in rows]
    others = [72 - length for length in lengths]  # the longest is the shortest there
    system = {
        "cache": {"num_gpu_blocks": rng.choice((12, 16, 24)), "block_size": 16, "num_cpu_blocks": rng.choice((0, 40))},
        "scheduler": {"max_num_seqs": rng.choice((3, 6, 16)), "max_num_batched_tokens": rng.choice((32, 128))},
        "policy": {"preemption_mode": rng.choice(("recompute", "swap"))},
        "latency": {"base_s": 0.5},
    }
    one, other = (
        {**system, "requests": [row | {"output_tokens": tokens} for row, tokens in zip(visible, hidden, strict=True)]}
        for hidden in (lengths, others)
    )
    return one, other


class _MadeUp(Predictor):
    """Predictions that have nothing to do with the lengths."""

    def predict(self, request, output_tokens):
        return 20 + 17 * int(request.id.removeprefix("r")) % 50


def _first_end(rows: list[dict[str, Any]]) -> int:
    """The steps up to the one in which somebody ends, that one included."""
    return next((place + 1 for place, row in enumerate(rows) if row["finished"]), len(rows))
