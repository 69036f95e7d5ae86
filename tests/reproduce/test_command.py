"""`python -m twin reproduce`."""

import json

import pytest

from twin.cli.main import main
from twin.reproduce import experiment, seats_and_budget
from twin.reproduce.result import Figure


def test_without_a_name_it_lists_what_there_is(capsys):
    assert main(["reproduce"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == experiment.names() and "seats_and_budget" in listed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["seats_and_budgets"], "unknown result 'seats_and_budgets'; did you mean seats_and_budget"),
        (["seats_and_budget", "--jsn"], "--jsn: unknown flag"),
        (["seats_and_budget", "requests=0"], "requests: 0 is of another kind"),
        (["batch_size", "batches=[1]", "requests=2", "jobs=1"], "batches: [1] must grow, from one below the knee at 261"),
        (["lpm_starvation", "requests=2", "jobs=1"], "requests, cold_share: none of 2 requests is cold"),
        (["vtc_bound", "rates_per_minute=[90]"], "rates_per_minute: [90] must be two"),
        (["vtc_bound", "rates_per_minute=[1,1]", "jobs=1"], "at no time does each of the two clients have somebody waiting"),
        (["chunked_prefill", "rates=[16]"], "rates: [16] must be two, the lower one first"),
        (["chunked_prefill", "rates=[16,0.25]"], "rates: [16, 0.25] must be two, the lower one first"),
        (
            ["chunked_prefill", "datasets={sharegpt:[9,9,9,9,10],arxiv:[1,2,1,2,10]}"],
            "datasets: sharegpt: medians of 9 and 9",
        ),
        (["continuous_batching", "mean_output_tokens=1000000", "jobs=1"], "longest: 1536 tokens are next to none"),
        (["seats_and_budget", "requests=20", "jobs=1", "options.gpu=h1000"], "gpu"),
        (["seats_and_budget", "requests=20", "jobs=2", "options.cache.block_size=0"], "cache.block_size=0"),
    ],
)
def test_a_mistake_is_one_line(words, says, capsys):
    assert main(["reproduce", *words]) == 2
    output = capsys.readouterr()
    assert says in output.err and len(output.err.splitlines()) == 1 and not output.out


@pytest.mark.parametrize(("same", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_says_whether_the_figures_go_the_published_way(same, status, monkeypatch, capsys):
    monkeypatch.setattr(seats_and_budget, "run", lambda _: [Figure("rate", "2 req/s", "1 req/s", same, False)])
    assert main(["reproduce", "seats_and_budget"]) == status
    printed = capsys.readouterr().out
    row = next(line.split() for line in printed.splitlines() if line.startswith("rate"))
    assert row == ["rate", "2", "req/s", "1", "req/s", "same" if same else "differs", "differs"]
    assert f"agrees in direction of {int(same)} of 1, size of 0 of 1" in printed and "Why ours differs" in printed


def test_the_figures_for_programs(capsys):
    assert main(["reproduce", "seats_and_budget", "requests=60", "jobs=2", "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    rows = {figure["what"]: figure for figure in told["figures"]}
    assert told["name"] == "seats_and_budget"
    assert rows["64 seats, budget 4096, as told: throughput"]["published"] == "24.1 req/s"


def test_side_by_side_gives_what_one_process_gives():
    beside, alone = (experiment.load("seats_and_budget", ["requests=60", f"jobs={jobs}"]).figures() for jobs in (2, 1))
    assert beside == alone


def test_a_policy_that_fails_is_one_line(tmp_path, capsys):
    (tmp_path / "bad.py").write_text(
        '"""Bad."""\nfrom twin.policy import Policy\n\n\nclass Bad(Policy):\n    """Bad (made up)."""\n\n'
        "    def order(self, request, view):\n        raise RuntimeError('no')\n"
    )
    words = ["options.policy=bad", f"options.policy_path={tmp_path}", "requests=20", "jobs=1"]
    assert main(["reproduce", "seats_and_budget", *words]) == 1
    output = capsys.readouterr()
    assert len(output.err.splitlines()) == 1 and "bad" in output.err
