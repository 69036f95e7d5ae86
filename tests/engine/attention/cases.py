"""The cases of `engine check`, for the tests of back ends: see engine/checks/cases.py."""

import torch

from engine.checks.case import Case, attend, run
from engine.checks.cases import CASES, Share, make_case

__all__ = ["CASES", "DEVICES", "Case", "Share", "attend", "make_case", "run"]

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
