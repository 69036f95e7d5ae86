"""Where a process was when its watchdog ended it, from faulthandler's dump."""

from __future__ import annotations

import re
from pathlib import Path

FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


def where_it_hung(dump: str, files: frozenset[str]) -> str | None:
    """In which hook and line of the policy, in words; None where the text holds no dump."""
    if "Timeout (" not in dump:
        return None
    frames = FRAME.findall(dump.rpartition("Timeout (")[2])  # innermost first
    if not frames:  # the dump fell between a call and its first line (CPython 3.11)
        return "at a place that could not be told: a function was just being called"
    own = [frame for frame in frames if frame[0] in files]
    if not own:
        inner = f" ({Path(frames[0][0]).name}:{frames[0][1]})"
        return f"not in the policy's code but in the scheduler's{inner}, which goes round with what the policy decides"
    file, line, function = own[0]
    hook = own[-1][2]
    if hook == "<module>":
        return f"at {Path(file).name}:{line}, while the file was imported"
    inner = "" if function == hook else f" (in {function})"
    return f"in {hook}(), at {Path(file).name}:{line}{inner}"
