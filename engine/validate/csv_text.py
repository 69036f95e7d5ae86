"""Tables of a validation as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The table with its head."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(head)
    lines.writerows(rows)
    return text.getvalue()
