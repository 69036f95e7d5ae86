"""Tables of requests: what arrives when, how long it is, and who shares what.

`open_trace` is the one entry: it reads a file (`traces/readers/`) or runs a generator (`traces/generators/`) and
returns a `Trace`. This package imports nothing else of the project.
"""

from traces.open import open_trace
from traces.prefix import Prefix
from traces.trace import ClosedLoop, Report, Trace

__all__ = ["ClosedLoop", "Prefix", "Report", "Trace", "open_trace"]
