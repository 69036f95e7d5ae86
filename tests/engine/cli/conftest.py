"""Each test in a folder of its own."""

from pathlib import Path

import pytest

FAILING = '''from twin.policy import Policy


class Failing(Policy):
    """Works for a while."""

    def __init__(self, after: int = 10):
        self.calls, self.after = 0, after

    def order(self, request, view):
        self.calls += 1
        if self.calls > self.after:
            raise RuntimeError("boom")
        return request.arrival_s
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def failing(own_folder: Path) -> None:
    """A policy that nobody has checked, and that raises in the end."""
    (own_folder / "policies").mkdir()
    (own_folder / "policies" / "failing.py").write_text(FAILING)
