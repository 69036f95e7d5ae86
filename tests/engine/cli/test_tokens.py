"""tokens.jsonl.gz: what came out of a run."""

import pytest

from tests.engine.cli.commands import TIGHT, lines, run, tokens

SAMPLED = ["sampling.temperature=0.8", "sampling.top_p=0.95", "sampling.top_k=40"]


@pytest.mark.parametrize("sampling", [[], SAMPLED], ids=["greedy", "sampled"])
def test_a_seed_has_its_tokens_whatever_is_scheduled_when(sampling):
    words = ["engine.tokens=true", *sampling]
    run(*words)
    first = tokens()
    assert len(first) == 12
    for other in (["scheduler.async_scheduling=true"], TIGHT, ["scheduler.max_num_batched_tokens=8"], ["policy=sjf"]):
        predictor = ["predictor=oracle"] if other == ["policy=sjf"] else []
        run(*words, *other, *predictor)
        assert tokens() == first
    run(*words, "seed=1")
    assert tokens() != first


def test_lines_are_in_the_order_of_the_trace_and_say_what_became_of_each():
    run("engine.tokens=true", "trace.output_tokens=5")
    told = lines("out/tokens.jsonl.gz")
    assert [line["request_id"] for line in told] == [str(row) for row in range(12)]
    assert {line["status"] for line in told} == {"finished"} and {line["reason"] for line in told} == {"length"}
    assert all(len(line["tokens"]) == 5 and 0 <= min(line["tokens"]) <= max(line["tokens"]) < 512 for line in told)


def test_samples_of_a_request_are_lines_of_their_own():
    summary = run("engine.tokens=true", "sampling.n=2", "sampling.temperature=1", "trace.output_tokens=8")
    assert (summary["requests"], summary["finished"]) == (12, 12)
    told = tokens()
    assert set(told) == {f"{row}.{sample}" for row in range(12) for sample in range(2)}
    assert any(told[f"{row}.0"] != told[f"{row}.1"] for row in range(12))


def test_beams_end_with_hypotheses_the_best_first():
    run("engine.tokens=true", "sampling.beam_width=3", "trace.output_tokens=6", "trace.num_requests=3")
    searches = [line["hypotheses"] for line in lines("out/tokens.jsonl.gz") if "hypotheses" in line]
    assert searches
    for hypotheses in searches:
        scores = [hypothesis["score"] for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True) and all(len(each["tokens"]) == 6 for each in hypotheses)


def test_an_end_of_sequence_token_ends_a_request_unless_it_is_ignored(monkeypatch):
    """The tiny model has none of its own: the token that comes second in some request is made one."""
    from engine.model import config

    words = ["engine.tokens=true", "trace.output_tokens=8"]
    run(*words)
    plain = tokens()
    end = next(iter(plain.values()))[1]
    from_shape = config.from_shape
    from dataclasses import replace

    import engine.build

    monkeypatch.setattr(engine.build, "from_shape", lambda shape: replace(from_shape(shape), eos_token_ids=(end,)))
    run(*words)
    assert tokens() == plain  # ignored, as a trace's lengths are to be kept
    run(*words, "sampling.ignore_eos=false")
    for line in lines("out/tokens.jsonl.gz"):
        whole = plain[line["request_id"]]
        until = whole[: whole.index(end) + 1] if end in whole else whole
        assert line["tokens"] == until
        assert line["reason"] == ("length" if end not in whole else "stop")
