"""A policy is one file: found by name, with its parameters; one line with file and line where it cannot be had."""

import hashlib
import os
from pathlib import Path

import pytest

from twin.policies_registry import find, folders, names
from twin.policy import Policy, RequestView
from twin.policy_declarations import GROUPS, HOOKS, SWITCHES
from twin.policy_parameters import PolicyFileError
from twin.policy_sources import BUILT_IN

GOOD = '''"""A policy of one's own."""

from typing import Literal

from twin.policy import Policy


class Mine(Policy):
    """Longest first, sometimes."""

    def __init__(self, alpha: float = 0.5, depth: int | None = None, kind: Literal["a", "b"] = "a", on: bool = False):
        if alpha < 0:
            raise ValueError("alpha must not be negative")
        self.alpha, self.depth, self.kind, self.on = alpha, depth, kind, on
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    return tmp_path / "policies"


def complaint(folder: Path, text: str, **given: object) -> str:
    (folder / "mine.py").write_text(text)
    with pytest.raises(PolicyFileError) as caught:
        find("mine").build(given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_dropped_into_policies_works_at_once(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    found = find("mine")
    policy, values = found.build({"alpha": 1, "kind": "b"})
    assert values == {"alpha": 1.0, "depth": None, "kind": "b", "on": False}
    assert (policy.alpha, policy.kind) == (1.0, "b")  # type: ignore[attr-defined]
    assert found.policy.__name__ == "Mine" and found.file == own_folder / "mine.py"
    assert found.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert [parameter.type_text for parameter in found.parameters] == ["float", "int or null", "a|b", "bool"]


def test_working_directory_before_policy_path_before_built_in(own_folder, tmp_path):
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "mine.py").write_text(GOOD)
    (path / "fcfs.py").write_text(GOOD)
    assert [folder for folder in folders(path)][:2] == [own_folder, path]
    assert find("mine", path).file == path / "mine.py"
    assert find("fcfs", path).file == path / "fcfs.py"
    (own_folder / "mine.py").write_text(GOOD)
    assert find("mine", path).file == own_folder / "mine.py"


def test_the_others_of_the_same_name_are_told(own_folder, tmp_path, monkeypatch):
    path = tmp_path / "elsewhere"
    path.mkdir()
    for place in (own_folder / "fcfs.py", path / "fcfs.py", path / "mine.py"):
        place.write_text(GOOD)
    installed(tmp_path, monkeypatch, "theirs", "mine = theirs_mod:Mine")
    used = f"policy=fcfs: {own_folder}/fcfs.py is used, not "
    first, second = find("fcfs", path).shadowed(path)
    assert first == f"{used}{path}/fcfs.py"
    assert second.startswith(f"{used}the one that comes with twin (")
    assert find("mine", path).shadowed(path) == [
        f"policy=mine: {path}/mine.py is used, not entry point theirs_mod:Mine of theirs"
    ]
    assert find("sarathi", path).shadowed(path) == []


def test_one_file_by_two_ways_is_no_other(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    assert find("mine", "policies").shadowed("policies") == []
    assert find("mine", "policies").file == own_folder / "mine.py"  # whole, wherever it is read later


def test_a_link_to_the_shipped_folder_is_the_shipped_folder(own_folder):
    own_folder.rmdir()
    own_folder.symlink_to(BUILT_IN)
    assert find("fcfs").source.built_in and find("fcfs").shadowed() == []


def test_two_packages_with_one_name_are_an_error_that_names_both(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "theirs", "mine = theirs_mod:Mine")
    installed(tmp_path, monkeypatch, "others", "mine = others_mod:Mine")
    with pytest.raises(PolicyFileError, match="policy=mine: two packages have it: .*of others") as caught:
        find("mine")
    assert "entry point theirs_mod:Mine of theirs" in str(caught.value)


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, entry_point: str) -> Path:
    """A package with one entry point, which is there to be imported; returns its module's file."""
    site = folder / package
    (site / f"{package}-1.0.dist-info").mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    (site / f"{package}-1.0.dist-info" / "METADATA").write_text(metadata)
    (site / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(f"[twin.policies]\n{entry_point}\n")
    (site / f"{package}_mod.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(site))
    return site / f"{package}_mod.py"


def test_listing_imports_nothing(own_folder):
    (own_folder / "broken.py").write_text("this is no Python")
    (own_folder / "_helper.py").write_text("")
    assert "broken" in names() and "_helper" not in names() and "fcfs" in names()


def test_a_changed_file_is_another_policy(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    first = find("mine")
    (own_folder / "mine.py").write_text(GOOD.replace("0.5", "0.25"))
    assert find("mine").parameters[0].default == 0.25
    assert find("mine").sha256 != first.sha256


def test_only_the_file_asked_for_is_imported(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    (own_folder / "other.py").write_text("raise SystemExit(3)")
    find("mine")


def test_an_entry_point_of_a_package_is_found(monkeypatch, tmp_path):
    file = installed(tmp_path, monkeypatch, "theirs", "theirs = theirs_mod:Mine")
    assert find("theirs").file == file
    assert find("theirs").sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert "theirs" in names()


@pytest.mark.parametrize(("broken", "line"), [("x = 1\ny = x / 0\n", 2), ("x = (\n", 1)])
def test_an_error_in_the_file_of_an_entry_point_has_its_line(monkeypatch, tmp_path, broken, line):
    file = installed(tmp_path, monkeypatch, "wrong", "wrong = wrong_mod:Mine")
    file.write_text(broken)
    with pytest.raises(PolicyFileError, match=f"{file}:{line}"):
        find("wrong")


def test_a_broken_entry_point_is_one_line(monkeypatch, tmp_path):
    package = tmp_path / "site"
    (package / "broken-1.0.dist-info").mkdir(parents=True)
    (package / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    text = "[twin.policies]\ngone = no_such_module_at_all:Mine\nnumber = math:pi\n"
    (package / "broken-1.0.dist-info" / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(package))
    with pytest.raises(PolicyFileError, match="policy=gone: entry point no_such_module_at_all:Mine of broken: Module"):
        find("gone")
    with pytest.raises(PolicyFileError, match="policy=number: entry point math:pi of broken is no class"):
        find("number")


def test_an_unknown_name_is_answered_with_the_closest(own_folder):
    (own_folder / "mine.py").write_text(GOOD)
    with pytest.raises(PolicyFileError, match=r"policy=mime: no such policy; did you mean mine\? \(policies: .*mine"):
        find("mime")
    with pytest.raises(PolicyFileError, match="name of its file"):
        find("../mine")


def test_a_missing_policy_path_is_named():
    with pytest.raises(PolicyFileError, match="policy_path=nowhere: no such folder"):
        find("fcfs", "nowhere")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alhpa": 1}, ["policy.alhpa", "did you mean policy.alpha?", "policy.depth"]),
        ({"alpha": "high"}, ["policy.alpha=high", "float"]),
        ({"alpha": True}, ["policy.alpha=True", "float"]),
        ({"depth": 1.5}, ["policy.depth=1.5", "int or null"]),
        ({"kind": "c"}, ["policy.kind=c", "a|b"]),
        ({"on": 1}, ["policy.on=1", "bool"]),
        ({"alpha": -1.0}, ["policy=mine", "alpha must not be negative"]),
    ],
)
def test_a_wrong_parameter_is_named_with_what_would_be_right(own_folder, given, words):
    message = complaint(own_folder, GOOD, **given)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef broken(:\n", ["mine.py:2:", "syntax"]),
        ("import os\nimport no_such_module\n", ["mine.py:2:", "no_such_module"]),
        ("x = 1\ny = x / 0\n", ["mine.py:2:", "ZeroDivisionError"]),
        ("x = 1\nassert not x, 'no'\n", ["mine.py:2:", "AssertionError", "no"]),
        (GOOD.replace("if alpha < 0", "if alpha < self.beta"), ["mine.py:12:", "AttributeError in the constructor"]),
        ("x = 1\n", ["mine.py:1:", "no class derived from twin.policy.Policy"]),
        (GOOD.replace("(Policy)", ""), ["mine.py:8:", "class Mine is not derived", "write class Mine(Policy)"]),
        (GOOD.replace("class Mine", "class _Mine"), ["mine.py:8:", "class _Mine is a helper, by its underscore"]),
        (GOOD + "\n\nclass Second(Mine):\n    '''Another.'''\n", ["mine.py:17:", "Mine (line 8)", "Second (line 17)"]),
        (GOOD.replace("alpha: float = 0.5", "alpha=0.5"), ["mine.py:11:", "parameter alpha of Mine has no type"]),
        (GOOD.replace("depth: int | None", "depth: list"), ["mine.py:11:", "parameter depth of Mine must be int"]),
        (GOOD.replace("depth: int | None", "depth: 'Nope'"), ["mine.py:11:", "Nope"]),
        (GOOD.replace("on: bool = False", "**rest: int"), ["mine.py:11:", "rest", "by name"]),
        (GOOD.replace("alpha", "victim"), ["mine.py:11:", "parameter victim", "choose another"]),
        (GOOD.replace('    """Longest first, sometimes."""\n', ""), ["mine.py:8:", "Mine has no docstring"]),
        (GOOD.replace("alpha: float = 0.5", "alpha: float"), ["policy.alpha", "policy=mine needs it (float)"]),
    ],
)
def test_a_bad_file_is_one_line_with_its_place(own_folder, text, words):
    message = complaint(own_folder, text)
    for word in words:
        assert word in message


def test_a_helper_class_with_an_underscore_is_not_a_second_policy(own_folder):
    (own_folder / "mine.py").write_text(GOOD + "\n\nclass _Helper(Policy):\n    pass\n")
    assert find("mine").policy.__name__ == "Mine"


def test_a_second_name_for_the_class_is_no_second_policy(own_folder):
    (own_folder / "mine.py").write_text(GOOD + "\n\nMyPolicy = Mine\n")
    assert find("mine").policy.__name__ == "Mine"


def test_a_file_whose_name_can_be_no_policys_says_what_to_call_it(own_folder):
    (own_folder / "my-policy.py").write_text(GOOD)
    with pytest.raises(PolicyFileError, match="my-policy.py: .*rename the file to my_policy.py"):
        find("my-policy")


def test_what_is_hashed_is_what_runs(own_folder):
    """Two versions of one size within one tick of the clock: no compiled file of the first stands for the second."""
    file = own_folder / "mine.py"
    for alpha in ("0.5", "0.7"):
        file.write_text(GOOD.replace("0.5", alpha))
        os.utime(file, (1e9, 1e9))
        assert find("mine").parameters[0].default == float(alpha)
    assert list(own_folder.iterdir()) == [file]


def test_a_changed_declaration_is_known_here_too():
    declared = {name for name, value in vars(Policy).items() if value is None} - {"group"}
    assert set(HOOKS) == declared
    assert all(isinstance(getattr(RequestView, name), property) for name in GROUPS)
    assert {type(getattr(Policy, name)) for name in SWITCHES} == {bool}


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("raise type('Own', (Exception,), {})('so')", ["Own", "so"]),
        ("raise MemoryError", ["MemoryError"]),
        ("f = lambda: f()\n        f()", ["RecursionError"]),
        ("raise SystemExit(0)", ["SystemExit", "0"]),
        ("raise GeneratorExit", ["GeneratorExit"]),
        ("raise OSError('a\\nb' * 99999)", ["OSError", "a ba b", "..."]),
        ("raise type('Evil', (Exception,), {'__str__': lambda self: 1 / 0})", ["Evil", "its text raises ZeroDivisionError"]),
    ],
)
def test_whatever_a_policys_code_raises_is_one_line(own_folder, raised, words):
    in_constructor = complaint(own_folder, GOOD.replace('raise ValueError("alpha must not be negative")', raised), alpha=-1)
    imported = complaint(own_folder, GOOD + "\n\nif True:\n    if True:\n        " + raised + "\n")
    assert "in the constructor" in in_constructor and "while it was imported" in imported
    for message in (in_constructor, imported):
        assert "mine.py:" in message and len(message) < 700 and all(word in message for word in words)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("order = 5", ["mine.py:8:", "Mine.order=5", "order(self, request, view)"]),
        ("schedule = 'x'", ["Mine.schedule='x'", "schedule(self, view)"]),
        ("def order(self, request): ...", ["Mine.order", "order(request, view)"]),
        ("group = 'nosuch'", ["Mine.group='nosuch'", "user, session"]),
        ("group = 'computed'", ["Mine.group='computed'", "user, session"]),
        ("group = ['user']", ["Mine.group=['user']", "user, session"]),
        ("steady = 1", ["Mine.steady=1", "True or False"]),
        ("dynamic = None", ["Mine.dynamic=None", "True or False"]),
        ("preempts = 'no'", ["Mine.preempts='no'", "True or False"]),
        ("allocator = 'page'", ["Mine.allocator='page'", "paged, contiguous"]),
        ("allocator = None", ["Mine.allocator=None", "paged, contiguous"]),
        ("def __init__(self, a: int = 'x'): ...", ["parameter a of Mine is int", "'x'"]),
        ("def __init__(self, a: float = None): ...", ["parameter a of Mine is float", "None"]),
        ("def __init__(self, a: 'typing.Nope' = 1): ...", ["a type of the constructor of Mine is unknown"]),
        ("def __init__(self):\n        self.admit = 3", ["Mine.admit=3"]),
    ],
)
def test_hooks_and_declarations_are_checked_before_the_run(own_folder, declared, words):
    text = GOOD.partition("    def __init__")[0].replace("from typing import Literal", "import typing")
    message = complaint(own_folder, f"{text}    {declared}\n")
    assert "mine.py:" in message and all(word in message for word in words)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("def oder(self, request, view): return 1", "order"),
        ("def on_finished(self, request, view): ...", "on_finish"),
        ("def admits(self, request, view): ...", "admit"),
        ("def scedule(self, view): ...", "schedule"),
        ("preempt = True", "preempts"),
        ("need_prediction = True", "needs_prediction"),
    ],
)
def test_a_misspelt_hook_or_declaration_is_not_passed_over(own_folder, written, meant):
    name = written.removeprefix("def ").split("(")[0].split(" ")[0]
    message = complaint(own_folder, f"{GOOD}\n    {written}\n")
    line = 16 if "def" in written else 8  # of the method; of a switch, of the class
    assert f"mine.py:{line}: Mine.{name}: no such hook or declaration; did you mean {meant}?" in message
    assert message.endswith(f"(if it is your own, call it _{name})")


def test_a_hook_with_other_arguments_is_told_with_its_own_line(own_folder):
    message = complaint(own_folder, f"{GOOD}\n    def chunk(self, request, view): return 1\n")
    assert "mine.py:16: Mine.chunk: takes other arguments; it is called as chunk(request, offered, view)" in message


@pytest.mark.parametrize(
    "written",
    [
        "def order(self, request, view): return 1\n    def orders(self, request, view): return 1",  # the hook is there too
        "def victims(self): return 1",  # it could not be called as the hook
        "def shortest(self, request, view): return 1",
        "def _oder(self, request, view): return 1",
        "steadily = 3",
    ],
)
def test_helpers_may_have_names_of_their_own(own_folder, written):
    (own_folder / "mine.py").write_text(f"{GOOD}\n    {written}\n")
    find("mine").build({})


def test_a_file_that_is_no_text_is_named(own_folder):
    (own_folder / "mine.py").write_bytes(b"x = 1\n\0\1\2")
    with pytest.raises(PolicyFileError, match="mine.py:1: .*null bytes"):
        find("mine")


def test_a_folder_with_the_name_of_a_policy_is_none(own_folder):
    (own_folder / "mine.py").mkdir()
    assert "mine" not in names()
    with pytest.raises(PolicyFileError, match="^policy=mine: .*mine.py is a folder; a policy is one file$"):
        find("mine")


def test_all_shipped_policies_pass():
    for name in names():
        found = find(name)
        if not any(parameter.required for parameter in found.parameters):
            found.build({})
