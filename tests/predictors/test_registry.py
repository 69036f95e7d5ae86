"""A predictor is one file: found by name, with its parameters; one line with file and line where it cannot be had."""

import hashlib
from pathlib import Path

import pytest
import yaml

from twin.cli.main import main
from twin.policy_parameters import PolicyFileError
from twin.predictors_registry import find, names

GOOD = '''"""A predictor of one's own."""

from twin.predictor import Predictor


class Mine(Predictor):
    """So many tokens for each of the prompt."""

    def __init__(self, alpha: float = 1.0, least: int | None = None):
        if alpha <= 0:
            raise ValueError(f"alpha must be above 0, not {alpha}")
        self.alpha, self.least = alpha, least

    def predict(self, request, output_tokens):
        return self.alpha * request.prompt_tokens
'''
SMALL = "system=textbook latency=linear latency.base_s=0.01 cache.num_gpu_blocks=1000 model=tiny trace=synthetic".split()
SMALL += "trace.num_requests=20 output.figures=false output.report=false hydra.run.dir=out".split()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "predictors").mkdir()
    return tmp_path / "predictors"


def complaint(folder: Path, text: str, **given: object) -> str:
    (folder / "mine.py").write_text(text)
    with pytest.raises(PolicyFileError) as caught:
        find("mine").build(given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_dropped_into_predictors_works_at_once(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    found = find("mine")
    predictor, values = found.build({"alpha": 2}, seed=7)
    assert values == {"alpha": 2.0, "least": None} and predictor.seed == 7
    assert found.provenance() == {
        "class": "Mine",
        "file": str(own_folder / "mine.py"),
        "sha256": hashlib.sha256(GOOD.encode()).hexdigest(),
        "description": "So many tokens for each of the prompt.",
    }


def test_the_predictors_that_come_with_the_package():
    assert names() == ["bucket", "constant", "history", "noisy", "none", "oracle"]


def test_working_directory_before_policy_path_before_built_in(own_folder, tmp_path):
    theirs = tmp_path / "lab" / "predictors"
    theirs.mkdir(parents=True)
    for name in ("mine", "oracle"):
        (theirs / f"{name}.py").write_text(GOOD)
    assert find("mine", tmp_path / "lab").file == theirs / "mine.py"
    assert find("oracle", tmp_path / "lab").file == theirs / "oracle.py"
    assert find("oracle").predictor.__name__ == "Oracle"
    assert "mine" in names(tmp_path / "lab") and "mine" not in names()
    (own_folder / "mine.py").write_text(GOOD)
    found = find("mine", tmp_path / "lab")
    assert found.file == own_folder / "mine.py"
    assert found.shadowed(tmp_path / "lab") == [f"predictor=mine: {found.file} is used, not {theirs / 'mine.py'}"]
    assert found.shadowed() == find("noisy").shadowed() == []


def test_an_entry_point_of_a_package_is_found(monkeypatch, tmp_path):
    package = tmp_path / "site"
    (package / "theirs-1.0.dist-info").mkdir(parents=True)
    (package / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    text = "[twin.predictors]\ntheirs = their_predictors:Mine\nnumber = math:pi\n"
    (package / "theirs-1.0.dist-info" / "entry_points.txt").write_text(text)
    (package / "their_predictors.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(package))
    assert find("theirs").file == package / "their_predictors.py"
    assert "theirs" in names()
    with pytest.raises(PolicyFileError, match="predictor=number: entry point math:pi of theirs is no class derived from"):
        find("number")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orakel", "predictor=orakel: no such predictor; did you mean oracle? (predictors: bucket, constant, history"),
        ("../mine", "predictor=../mine: no such predictor"),
        ("my-own", "a predictor's name is of letters, digits and _; rename the file to my_own.py"),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(own_folder, name: str, words: str):
    (own_folder / "my-own.py").write_text(GOOD)
    with pytest.raises(PolicyFileError) as caught:
        find(name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef broken(:\n", ["mine.py:2:", "syntax"]),
        ("import os\nimport no_such_module\n", ["mine.py:2:", "no_such_module"]),
        ("x = 1\ny = x / 0\n", ["mine.py:2:", "ZeroDivisionError"]),
        ("x = 1\n", ["mine.py:1: no class derived from twin.predictor.Predictor"]),
        (GOOD.replace("(Predictor)", ""), ["mine.py:6: class Mine is not derived", "write class Mine(Predictor)"]),
        (GOOD + "\n\nclass Two(Mine):\n    '''Two.'''\n", ["mine.py:18: one predictor a file", "Mine (line 6)"]),
        (GOOD.replace('    """So many', '    x = """So many'), ["mine.py:6: Mine has no docstring"]),
        (GOOD.replace("alpha: float", "alpha"), ["mine.py:9: parameter alpha of Mine has no type"]),
        (GOOD.replace("alpha", "name"), ["mine.py:9: parameter name of Mine has the name of an option"]),
        (GOOD.replace("alpha <= 0", "alpha <= self.no"), ["mine.py:10: AttributeError in the constructor"]),
        (
            GOOD.replace("def predict(", "def guess("),
            ["mine.py:6: Mine has no method predict(self, request, o"],
        ),
        (
            GOOD.replace("request, output_tokens)", "request)"),
            ["mine.py:6: Mine.predict: takes other arguments; it is called as predict(request, output_tokens)"],
        ),
        (GOOD + "\n    on_finish = 3\n", ["mine.py:6: Mine.on_finish=3: must be a method on_finish(self, request, gen"]),
        (GOOD + "\n    needs_length = 'yes'\n", ["mine.py:6: Mine.needs_length=yes: must be True or False"]),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_with_its_place(own_folder, text, words):
    message = complaint(own_folder, text)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alhpa": 1}, "predictor.alhpa: no such parameter of predictor=mine; did you mean predictor.alpha?"),
        ({"alpha": "high"}, "predictor.alpha=high: predictor=mine takes float here"),
        ({"least": 1.5}, "predictor.least=1.5: predictor=mine takes int or null here"),
        ({"alpha": -1}, "predictor=mine: alpha must be above 0, not -1.0"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_would_be_right(own_folder, given, words):
    assert words in complaint(own_folder, GOOD, **given)


# --- from the command line


def test_a_run_with_ones_own_predictor_says_which_it_was(own_folder, tmp_path, capsys):
    (own_folder / "mine.py").write_text(GOOD)
    assert main(["run", "policy=fcfs", "predictor=mine", "predictor.alpha=2", *SMALL]) == 0
    config = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert config["predictor"] == {"name": "mine", "alpha": 2.0, "least": None}
    assert config["provenance"]["predictor"] == find("mine").provenance()


@pytest.mark.parametrize("policy", ["policy=srpt", "policy.victim=most_remaining"])
def test_who_cannot_do_without_gets_the_oracle_and_the_run_says_so(own_folder, capsys, tmp_path: Path, policy: str):
    for folder, words in (("unasked", []), ("asked", ["predictor=oracle"])):
        assert main(["run", policy, *words, *SMALL[:-1], f"hydra.run.dir={tmp_path / folder}"]) == 0
        noted = "needs predicted output lengths and no predictor was given: predictor=oracle" in capsys.readouterr().out
        assert noted == (folder == "unasked")
    configs = [yaml.safe_load((tmp_path / folder / "config.yaml").read_text()) for folder in ("unasked", "asked")]
    assert configs[0]["predictor"] == configs[1]["predictor"] == {"name": "oracle"}
    tables = [(tmp_path / folder / "requests.parquet").read_bytes() for folder in ("unasked", "asked")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predictor=orakel"], "twin run: predictor=orakel: no such predictor; did you mean oracle?"),
        (["predictor=noisy", "predictor.sgima=1"], "twin run: predictor.sgima: no such parameter of predictor=noisy; did"),
        (["predictor=noisy", "predictor.sigma=much"], "twin run: predictor.sigma=much: predictor=noisy takes float here"),
        (["predictor.name=null"], "twin run: predictor.name=null: must be a name"),
        (["predictor=broken"], "predictors/broken.py:2: "),
        (
            ["policy=most_remaining", "predictor=none"],
            "choose a predictor, predictor=oracle say (or noisy, bucket, h",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(own_folder, capsys, words: list[str], message: str):
    (own_folder / "broken.py").write_text("x = 1\n)\n")
    assert main(["run", *words, *SMALL]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and message in said


def test_help_shows_the_predictors_and_the_parameters_of_the_chosen_one(own_folder, capsys):
    (own_folder / "mine.py").write_text(GOOD)
    assert main(["run", "predictor=mine", "--help"]) == 0
    said = capsys.readouterr().out
    assert "predictor=mine" in said and "bucket constant history mine noisy none oracle" in said
    assert "predictor.alpha=1.0" in said and "int or null" in said
