"""Where the real data lives that tests read and the repository does not hold: the folder `shared` beside the checkout."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(*parts: str) -> Path:
    """The path of a file of real data; skips the test where it is absent, fails it where absence is not allowed."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        reason = f"real data is absent: {Path('..', 'shared', *parts)}"
        if os.environ.get("TWIN_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
