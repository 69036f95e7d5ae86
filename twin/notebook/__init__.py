"""The command line's `run` for notebooks and scripts: the same options, the same numbers, tables as DataFrames."""

from twin.notebook.result import Run, Runs, load
from twin.notebook.runs import run

__all__ = ["Run", "Runs", "load", "run"]
