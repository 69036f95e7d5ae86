"""The PagedAttention paper's comparison with Orca, small."""

import pytest

from twin.cli.errors import UserError
from twin.reproduce.experiment import load
from twin.reproduce.paging import SERVERS, loads, rates
from twin.reproduce.running import simulate


def test_what_fits_of_requests_that_are_all_alike():
    """Prompts of 200, outputs of 313: 512 slots at their peak. 15,700 // 2,048 = 7 and 15,700 // 512 = 30 in a batch.

    pow2: 200 + 512 = 712, so that a buddy allocator hands out 1,024, of which there are 15.
    """
    alike = {"trace.prompt_tokens": 200, "trace.output_tokens": 313, "trace.num_requests": 400, "trace.arrivals": "burst()"}
    experiment = load("paging", ["jobs=1"])
    orca = [{**SERVERS[reserve], **alike} for reserve in ("max", "pow2", "oracle")]
    batches = simulate(experiment, orca, most_at_once)
    assert batches == [7, 15, 30]


def most_at_once(run):
    return int(run.steps.sequences.max())


def test_batches_and_memory_go_the_way_that_was_published():
    figures = loads(load("paging", ["requests=300", "jobs=1"]))
    assert all(figure.direction for figure in figures)
    assert figures[0].ours == "7.00"  # 15,700 // 2,048, as in figure 13
    assert figures[4].size and figures[9].size  # paging, full


def test_paging_sustains_more():
    figures = rates(load("paging", ["requests=150", "limit_s=0.1", "halvings=1", "jobs=1"]))
    assert [figure.what[-13:] for figure in figures] == ["Orca (Oracle)", "er Orca (Max)"]
    assert all(figure.direction for figure in figures)


def test_too_few_requests_are_refused():
    with pytest.raises(UserError, match="requests: 1 are too few"):
        loads(load("paging", ["requests=1", "jobs=1"]))
