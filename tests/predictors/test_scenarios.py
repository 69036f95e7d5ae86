"""`predictor:` in a scenario file: a name, or a name with its parameters."""

from pathlib import Path

import pytest

from tests.policies.scenarios import played, request, scheduled
from twin.cli.main import main

REQUESTS = [request("A", 8, 9), request("B", 8, 4), request("C", 8, 2), request("D", 8, 2, user="u")]
SCENARIO = """cache: {num_gpu_blocks: 99}
policy: {name: most_remaining}
predictor: PREDICTOR
requests:
  - {id: A, prompt_tokens: 4, output_tokens: 2}
"""
MINE = '''from twin.predictor import Predictor


class Mine(Predictor):
    """Three tokens, whoever asks."""

    def predict(self, request, output_tokens):
        return 3
'''


def order_of(predictor: object) -> list[str]:
    """Who comes first where the shortest predicted goes first and there is one seat."""
    steps, _ = played("shortest_first", REQUESTS, 99, predictor=predictor, max_num_seqs=1)  # type: ignore[arg-type]
    return [name for step in scheduled(steps) for name, tokens in step.items() if tokens > 1]


@pytest.fixture
def shortest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "shortest_first.py").write_text(
        "from twin.policy import Policy\n\n\nclass ShortestFirst(Policy):\n    '''Shortest predicted first.'''\n\n"
        "    needs_prediction = True\n\n    def order(self, request, view):\n        return request.predicted_output\n"
    )
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("shortest_first")
def test_a_name_or_a_mapping_with_parameters():
    assert order_of("oracle") == order_of({"name": "oracle"}) == ["C", "D", "B", "A"]
    assert order_of({"name": "constant", "tokens": 9}) == ["A", "B", "C", "D"]  # all alike: order of arrival
    assert order_of({"name": "bucket", "edges": "doubling", "first": 4, "buckets": 2}) == ["B", "C", "D", "A"]
    assert order_of({"name": "history", "by": "user", "prior": 5}) == ["A", "B", "C", "D"]  # nothing finished when they came


def test_what_a_scenario_says_wrongly_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for predictor, words in (
        ("crystal", "predictor=crystal: no such predictor"),
        ("{name: noisy, sgima: 1}", "predictor.sgima: no such parameter of predictor=noisy; did you mean predictor.sigma?"),
        ("{name: noisy, sigma: -1.0}", "predictor=noisy: sigma must be from 0 to 10, not -1"),
        ("none", "policy MostRemaining needs predicted output lengths: choose a predictor"),
        ("[oracle]", "predictor must be a name or a mapping, not ['oracle']"),
    ):
        Path("one.yaml").write_text(SCENARIO.replace("PREDICTOR", predictor))
        assert main(["scenario", "one.yaml"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("twin scenario: one.yaml: ") and words in said and said.count("\n") == 1


def test_ones_own_predictor_in_a_scenario(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab" / "predictors").mkdir(parents=True)
    (tmp_path / "lab" / "predictors" / "mine.py").write_text(MINE)
    Path("one.yaml").write_text(SCENARIO.replace("PREDICTOR", "mine"))
    assert main(["scenario", "one.yaml", "policy_path=lab"]) == 0
    assert '"status": "finished"' in capsys.readouterr().out
