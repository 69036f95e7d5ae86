"""What SamplingParams refuses, and in which words; which tokens end a request."""

import pytest

from engine.errors import EngineError
from engine.sampling.params import SamplingParams
from engine.sampling.stops import Stops

BEAMS = {"beam_width": 4}


def test_defaults_are_greedy_and_one_sample() -> None:
    params = SamplingParams()
    assert (params.temperature, params.top_p, params.top_k, params.n, params.beam_width) == (0, 1, 0, 1, 1)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"temperature": -0.5}, "sampling: temperature=-0.5: needs a number from 0 (greedy) to 100"),
        ({"temperature": float("nan")}, "sampling: temperature=nan: needs a number from 0 (greedy) to 100"),
        ({"temperature": float("inf")}, "sampling: temperature=inf: needs a number from 0 (greedy) to 100"),
        ({"temperature": "hot"}, "sampling: temperature='hot': needs a number from 0 (greedy) to 100"),
        ({"temperature": True}, "sampling: temperature=True: needs a number from 0 (greedy) to 100"),
        ({"top_p": 0}, "sampling: top_p=0: needs a number above 0 and at most 1 (1: no limit)"),
        ({"top_p": 1.01}, "sampling: top_p=1.01: needs a number above 0 and at most 1 (1: no limit)"),
        ({"top_p": float("nan")}, "sampling: top_p=nan: needs a number above 0 and at most 1 (1: no limit)"),
        ({"top_k": -1}, "sampling: top_k=-1: needs a whole number from 0 up (0: no limit)"),
        ({"top_k": 2.5}, "sampling: top_k=2.5: needs a whole number from 0 up (0: no limit)"),
        ({"seed": "x"}, "sampling: seed='x': needs a whole number or none (the run's seed)"),
        ({"max_tokens": 0}, "sampling: max_tokens=0: needs a whole number from 1 up"),
        ({"min_tokens": -1}, "sampling: min_tokens=-1: needs a whole number from 0 up"),
        ({"min_tokens": 9, "max_tokens": 8}, "sampling: min_tokens=9: needs at most max_tokens=8"),
        ({"n": 0}, "sampling: n=0: needs a whole number from 1 up"),
        ({"ignore_eos": 1}, "sampling: ignore_eos=1: needs true or false"),
        ({"stop_token_ids": "12"}, "sampling: stop_token_ids='12': needs a list of token ids"),
        ({"stop_token_ids": 12}, "sampling: stop_token_ids=12: needs a list of token ids"),
        ({"stop_token_ids": [1, -2]}, "sampling: stop_token_ids=-2: needs a whole number from 0 up each"),
        ({"beam_width": 0}, "sampling: beam_width=0: needs a whole number from 1 up (1: no beam search)"),
        ({"early_stopping": "always"}, "sampling: early_stopping='always': needs true, false or \"never\""),
        ({**BEAMS, "length_penalty": 6}, "sampling: length_penalty=6: needs a number from -5 to 5"),
        ({**BEAMS, "n": 5}, "sampling: n=5: needs at most beam_width=4, as many hypotheses as beam search keeps"),
        (
            {**BEAMS, "temperature": 0.7},
            "sampling: beam_width=4 does not sample: leave temperature=0, top_p=1 and top_k=0",
        ),
        (
            {"length_penalty": 2.0},
            "sampling: length_penalty and early_stopping belong to beam search: set beam_width above 1",
        ),
    ],
)
def test_a_mistake_is_one_line(given: dict, line: str) -> None:
    with pytest.raises(EngineError) as refused:
        SamplingParams(**given)
    assert str(refused.value) == line


def test_the_edges_are_allowed() -> None:
    SamplingParams(temperature=100, top_p=1, top_k=10**9, seed=-3, min_tokens=16, n=8)
    SamplingParams(beam_width=4, n=4, length_penalty=-5, early_stopping="never")
    assert SamplingParams(stop_token_ids=[3, 1]).stop_token_ids == (3, 1)  # type: ignore[arg-type]


def test_a_request_ends_at_the_models_stop_tokens_and_at_its_own() -> None:
    stops = Stops.of(SamplingParams(stop_token_ids=(7, 2)), eos_ids=[2, 5])
    assert [token for token in range(10) if stops.end(token)] == [2, 5, 7]


def test_ignore_eos_leaves_the_requests_own_stop_tokens() -> None:
    stops = Stops.of(SamplingParams(stop_token_ids=(7,), ignore_eos=True), eos_ids=[2, 5])
    assert [token for token in range(10) if stops.end(token)] == [7]


def test_no_stop_token_before_min_tokens() -> None:
    stops = Stops.of(SamplingParams(min_tokens=2), eos_ids=[5, 2])
    assert [stops.suppressed(generated) for generated in range(4)] == [(2, 5), (2, 5), (), ()]
