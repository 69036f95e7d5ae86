"""`twin policy list | show | new`."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from twin.check.certificate import VERSION
from twin.cli.main import main
from twin.cli.policy_catalogue import FAMILIES, entries
from twin.policies_registry import find
from twin.results.load import load_run

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("trace=chat", "trace.num_requests=20", "output.figures=false", "output.report=false", "hydra.run.dir=out")
ONE_OF_MINE = '''from twin.policy import Policy


class Mine(Policy):
    """Longest prompt first."""

    needs_prediction = {predicts}

    def __init__(self, share: float = 0.5, depth: int | None = None) -> None:
        self.share, self.depth = share, depth

    def order(self, request, view):
        return -request.prompt_tokens
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """What the command prints; of a mistake, its one line."""
    assert main(["policy", *words]) == status
    captured = capsys.readouterr()
    assert bool(captured.err) == (status != 0)
    assert captured.err.count("\n") == (status != 0)
    return captured.err if status else captured.out


def dropped_in(name: str, text: str) -> Path:
    Path("policies").mkdir(exist_ok=True)
    file = Path("policies", f"{name}.py")
    file.write_text(text)
    return file


# --- new


def test_a_new_policy_is_fifteen_lines_that_run_at_once(capsys):
    printed = told(capsys, "new", "my_policy")
    file = Path("policies/my_policy.py")
    assert str(file) in printed
    lines = [line for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= 15 and sum("#" in line for line in lines) >= 3
    assert main(["run", "policy=my_policy", "policy.grain_tokens=16", *QUICK]) == 0
    made = load_run("out").config["provenance"]["policy"]
    assert made["class"] == "MyPolicy"
    assert made["file"] == str(file.absolute())
    assert made["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_commands_that_it_names_work(capsys):
    printed = told(capsys, "new", "my_policy")
    commands = [line.split()[3:] for line in printed.splitlines() if line.startswith("  python -m twin")]
    assert [words[0] for words in commands] == ["run", "run", "check"]
    for words in commands[:2]:
        assert main([*words, *(QUICK if "--help" not in words else ())]) == 0


def test_a_new_policy_passes_ruff(capsys):
    told(capsys, "new", "my_policy")
    for words in (["check", "--isolated", "--line-length=125", "--select=E,F,W,I,UP,B"], ["format", "--check", "--isolated",
                  "--line-length=125"]):  # fmt: skip
        done = subprocess.run([sys.executable, "-m", "ruff", *words, "policies"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_its_order_is_what_it_says(capsys):
    told(capsys, "new", "my_policy")
    Path("one_seat.yaml").write_text(
        "cache: {num_gpu_blocks: 64}\nscheduler: {max_num_seqs: 1}\npolicy: my_policy\nrequests:\n"
        "  - {id: A, prompt_tokens: 10, output_tokens: 2}\n"
        "  - {id: long, arrival_s: 0.1, prompt_tokens: 300, output_tokens: 1}\n"
        "  - {id: short, arrival_s: 0.2, prompt_tokens: 20, output_tokens: 1}\n"
    )
    assert main(["scenario", "one_seat.yaml"]) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [step["admitted"] for step in steps[:-1]] == [["A"], [], ["short"], ["long"]]


def test_it_may_begin_as_a_copy_of_another(capsys):
    printed = told(capsys, "new", "my_orca", "from=orca")
    assert "predictor" not in printed
    mine, orca = find("my_orca"), find("orca")
    assert mine.policy.__name__ == "MyOrca"
    assert mine.parameters == orca.parameters
    told(capsys, "new", "mine_too", "--from", "my_orca")  # one of one's own, and the other way to write it
    assert find("mine_too").policy.__name__ == "MineToo"


def test_a_copy_of_one_that_needs_a_prediction_says_so(capsys):
    dropped_in("mine", ONE_OF_MINE.format(predicts=True))
    assert told(capsys, "new", "copy", "from=mine").count("policy=copy predictor=oracle") == 2  # run and check


def test_policy_path_is_where_it_is_written_and_found(capsys):
    printed = told(capsys, "new", "mine", "policy_path=lab/policies")
    assert Path("lab/policies/mine.py").is_file() and not Path("policies").exists()
    assert "python -m twin check policy=mine policy_path=lab/policies" in printed
    assert find("mine", "lab/policies").file == Path("lab/policies/mine.py").absolute()


def test_no_file_is_overwritten(capsys):
    file = dropped_in("mine", "precious")
    assert "policies/mine.py: exists already" in told(capsys, "new", "mine", status=2)
    assert file.read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["new"], "give one NAME, not none"),
        (["new", "a", "b"], "give one NAME, not a, b"),
        (["new", "my-policy"], "my-policy: a policy's name is of letters, digits and _, a letter first, as in my_policy"),
        (["new", "mine.py"], "as in mine"),
        (["new", "../mine"], "as in mine"),
        (["new", "1st"], "as in policy_1st"),
        (["new", "_mine"], "as in mine"),
        (["new", "grün"], "as in gr_n"),
        (["new", "null"], "as in policy_null"),
        (["new", ""], "as in policy"),
        (
            ["new", "fcfs"],
            "fcfs: a policy of that name comes with twin; choose another name: python -m twin policy new my_fcfs",
        ),
        (["new", "mine", "from=srtp_"], "policy=srtp_: no such policy"),
        (["new", "mine", "form=fcfs"], "form=fcfs: no such option; did you mean from?; there is from, policy_path"),
        (["new", "mine", "from="], "from: give from=..."),
        (["new", "mine", "--from"], "from: give from=..."),
        (["new", "mine", "policy_path=/proc/none"], "/proc/none: "),
        (["list", "all"], "give no names, not all"),
        (["list", "policy_path=nowhere"], "policy_path=nowhere: no such folder"),
        (["list", "format=latex"], "format=latex: must be table or markdown"),
        (["show"], "give one NAME, not none"),
        (["show", "fcsf"], "fcsf: no such policy; did you mean fcfs?"),
        (["lits"], "there is no policy lits; did you mean list?"),
        ([], "no subcommand; there are list, show, new"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(capsys, own_folder, words, complaint):
    assert complaint in told(capsys, *words, status=2)
    assert list(own_folder.rglob("*.py")) == []


@pytest.mark.parametrize("words", [["--help"], ["list", "--help"], ["show", "--help"], ["new", "-h"]])
def test_every_command_has_help_with_an_example(capsys, words):
    assert "example: python -m twin policy" in told(capsys, *words)


# --- list and show


def test_the_list_has_what_one_wants_to_know(capsys):
    dropped_in("mine", ONE_OF_MINE.format(predicts=True))
    lines = told(capsys, "list").splitlines()
    (mine,) = [line for line in lines if line.split()[:2] == ["mine", "*"]]
    for word in ("Longest prompt first.", "order", "share=0.5 depth=null"):
        assert word in mine
    assert lines.index(f"In {Path('policies').absolute()}") == lines.index(mine) - 1
    assert any(line.split()[:1] == ["fcfs"] for line in lines)


def test_a_policy_that_passed_its_check_is_marked(capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    file = dropped_in("mine", ONE_OF_MINE.format(predicts=False))
    assert "mine ✓" not in told(capsys, "list")
    assert "checked: not in this form; python -m twin check policy=mine\n" in told(capsys, "show", "mine")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    Path("cache/twin/certificates").mkdir(parents=True)
    Path(f"cache/twin/certificates/{sha256}.json").write_text(json.dumps({"sha256": sha256, "certificate": VERSION}))
    listed = told(capsys, "list")
    assert "mine ✓" in listed and "✓ has passed twin check" in listed
    assert "checked: it has a certificate\n" in told(capsys, "show", "mine")


def test_the_check_that_is_proposed_has_the_predictor_and_the_folder_that_it_needs(capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    Path("other").mkdir()
    Path("other/mine.py").write_text(ONE_OF_MINE.format(predicts=True))
    proposed = "python -m twin check policy=mine policy_path=other predictor=oracle\n"
    assert proposed in told(capsys, "show", "mine", "policy_path=other")


def test_one_that_is_broken_is_one_line_and_the_others_are_there(capsys):
    dropped_in("mine", ONE_OF_MINE.format(predicts=False))
    dropped_in("broken", "x = 1\ndef y(:\n")
    dropped_in("untyped", "from twin.policy import Policy\nclass A(Policy):\n  'A.'\n  def __init__(self, a): ...\n")
    dropped_in("my-own", "")
    dropped_in("leaves", "raise SystemExit(3)")
    lines = told(capsys, "list").splitlines()
    here = Path("policies").absolute()
    assert f"  broken  cannot be used: {here}/broken.py:2: invalid syntax" in lines
    assert (f"  untyped  cannot be used: {here}/untyped.py:4: parameter a of A has no type; write a: int "
            "(or float, bool, str, Literal)") in lines  # fmt: skip
    assert any(
        line.startswith("  my-own  cannot be used") and line.endswith("rename the file to my_own.py") for line in lines
    )
    assert any(line.startswith(f"  leaves  cannot be used: {here}/leaves.py:1: SystemExit") for line in lines)
    assert any("Longest prompt first." in line for line in lines)


def test_every_shipped_policy_is_listed_in_one_family_and_usable():
    listed = {entry.name: entry for entry in entries()}
    shipped = {file.stem for file in (ROOT / "policies").glob("[!_]*.py")}
    assert set(listed) == shipped
    assert {name: entry.error for name, entry in listed.items() if entry.error} == {}
    assert {entry.family for entry in listed.values()} <= set(FAMILIES)
    names = [name for family in FAMILIES.values() for name in family]
    assert len(names) == len(set(names))


def test_what_a_policy_decides_is_read_from_its_hooks():
    listed = {entry.name: entry for entry in entries()}
    assert listed["fcfs"].decides == ()
    assert listed["sarathi"].decides == ("whole step",)
    assert listed["priority"].decides == ("order", "victim")


def test_show_has_the_whole_docstring_and_the_hash(capsys):
    file = dropped_in(
        "mine", ONE_OF_MINE.replace('first."""', 'first.\n\n    Source: nobody.\n    """').format(predicts=True)
    )
    shown = told(capsys, "show", "mine")
    for words in (
        f"mine: class Mine of {file.absolute()}",
        f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}",
        "Longest prompt first.\n\nSource: nobody.\n",
        "decides: order\n",
        "needs a prediction: yes\n",
        "  policy.depth=null  int or null",
    ):
        assert words in shown


def test_show_of_a_broken_one_says_where(capsys):
    dropped_in("broken", "x = 1\nimport no_such_module\n")
    line = told(capsys, "show", "broken", status=2)
    assert "policies/broken.py:2: ModuleNotFoundError while it was imported: No module named 'no_such_module'" in line


# --- who made a result


def test_every_result_says_who_scheduled(capsys):
    """The class, its file and the file's hash: in a run, in each of several seeds, in the report, in a scenario."""
    file = dropped_in("mine", ONE_OF_MINE.format(predicts=False))
    who = {"class": "Mine", "file": str(file.absolute()), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    words = ["run", "policy=mine", "trace=chat", "trace.num_requests=20", "output.figures=false", "hydra.run.dir=out"]
    assert main([*words, "seeds=2"]) == 0
    for seed in (0, 1):
        made = load_run(f"out/seed={seed}").config["provenance"]["policy"]
        assert {key: made[key] for key in who} == who
        report = Path(f"out/seed={seed}/report.html").read_text()
        assert all(text in report for text in who.values())
    capsys.readouterr()
    Path("one.yaml").write_text(
        "cache: {num_gpu_blocks: 9}\npolicy: mine\nrequests: [{id: A, prompt_tokens: 3, output_tokens: 1}]"
    )
    assert main(["scenario", "one.yaml"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["policy"]
    assert {key: made[key] for key in who} == who


def test_hiding_a_shipped_policy_is_said(capsys):
    file = dropped_in("fcfs", ONE_OF_MINE.format(predicts=False)).absolute()
    assert main(["run", "policy=fcfs", *QUICK]) == 0
    said = f"note: policy=fcfs: {file} is used, not the one that comes with twin ({ROOT / 'policies' / 'fcfs.py'})"
    assert said in capsys.readouterr().out
    Path("one.yaml").write_text("cache: {num_gpu_blocks: 9}\nrequests: [{id: A, prompt_tokens: 3, output_tokens: 1}]")
    assert main(["scenario", "one.yaml"]) == 0
    assert said in capsys.readouterr().err


def test_a_run_imports_no_policy_but_its_own():
    dropped_in("other", "raise SystemExit(3)")
    code = (
        "import sys; from twin.cli.main import main; "
        f"assert main(['run', 'policy=sarathi', 'policy.victim=longest', *{QUICK!r}]) == 0; "
        "print([name for name in sys.modules if name.startswith(('policies.', 'policy_'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['policies.sarathi', 'policies.longest']"


def test_indented_code_in_a_description_stays_as_it_is_in_the_page(capsys):
    page = told(capsys, "list", "format=markdown")
    assert "    peak = max over i of  left_i * i + sum of has_j, j <= i " in page
    assert "&lt;" not in "".join(line for line in page.splitlines() if line.startswith("    "))
