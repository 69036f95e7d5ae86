"""docs/architecture.md points at files that are there."""

import re
from pathlib import Path

from tests.docs.pages import DOCS, page


def test_every_file_that_any_page_names_exists():
    root = DOCS.parent
    for path in sorted(DOCS.glob("*.md")):
        named = re.findall(r"`((?:twin|engine|tests|traces|conf|docs|bench)/[\w/.]+)`", page(path.stem))
        missing = [name for name in named if not Path(root, name).exists()]
        assert not missing, f"{path.name} names {missing}"
