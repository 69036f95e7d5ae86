"""vLLM, where it is installed; elsewhere its tests are skipped, with the reason."""

import os

import pytest

from engine.oracle.versions import NotHere, installed


@pytest.fixture(scope="session")
def version() -> str:
    """The version that is installed, as "0.32"; where $TWIN_REQUIRE_VLLM is 1 it has to be."""
    try:
        return installed()
    except NotHere as error:
        if os.environ.get("TWIN_REQUIRE_VLLM") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
