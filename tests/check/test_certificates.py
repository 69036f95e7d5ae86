"""Certificates: by the hash of the file; those of the shipped policies are fresh."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import policies
from twin.check import certificate
from twin.check.certificate import SHIPPED, VERSION, certificate_for

FOLDER = Path(policies.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "twin" / "certificates"


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_policy_has_a_certificate_for_what_it_is_now(name: str):
    found = certificate_for(FOLDER / f"{name}.py")
    assert found == SHIPPED / f"{name}.json", f"run python -m twin check policy={name} (predictor=oracle where it needs one)"
    content = json.loads(found.read_text(encoding="utf-8"))
    assert content["file"] == f"{name}.py" and content["options"] == {}
    assert {check["verdict"] for check in content["checks"].values()} == {"passed"}


def test_no_certificate_is_left_over_from_a_policy_that_is_gone():
    assert sorted(path.stem for path in SHIPPED.glob("*.json")) == NAMES


def test_a_changed_file_has_none(tmp_path: Path):
    copy = shutil.copy(FOLDER / "fcfs.py", tmp_path / "fcfs.py")
    assert certificate_for(copy) == SHIPPED / "fcfs.json"  # the same content
    copy.write_text(copy.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert certificate_for(copy) is None


def test_a_users_own_is_found_by_its_hash(tmp_path: Path, empty_cache: Path):
    file = tmp_path / "mine.py"
    file.write_text("# a policy\n", encoding="utf-8")
    assert certificate_for(file) is None
    sha256 = hashlib.sha256(b"# a policy\n").hexdigest()
    empty_cache.mkdir(parents=True)
    path = empty_cache / f"{sha256}.json"
    path.write_text(json.dumps({"certificate": VERSION, "sha256": sha256}), encoding="utf-8")
    assert certificate_for(file) == path


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"certificate": 0}'])
def test_what_is_no_certificate_vouches_for_nothing(text: str, tmp_path: Path, empty_cache: Path):
    file = tmp_path / "mine.py"
    file.write_text("# a policy\n", encoding="utf-8")
    empty_cache.mkdir(parents=True)
    (empty_cache / f"{hashlib.sha256(file.read_bytes()).hexdigest()}.json").write_text(text, encoding="utf-8")
    assert certificate_for(file) is None


def test_one_of_an_older_kind_of_check_vouches_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certificate, "VERSION", VERSION + 1)
    assert certificate_for(FOLDER / "fcfs.py") is None
