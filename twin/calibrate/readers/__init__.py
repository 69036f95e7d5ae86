"""Files of measured steps and kernels, each kind found by what is in it: `read(path, ...)` gives a table of `Steps`."""

from twin.calibrate.readers.find import Wanted, read

__all__ = ["Wanted", "read"]
