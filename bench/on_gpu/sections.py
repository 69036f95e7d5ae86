"""The sections of a run, in their order, with their shares of its time."""

from __future__ import annotations

import os

from bench.on_gpu import bandwidth, checks, decode, machine, prepare, profile, swaps
from bench.on_gpu.items import Section
from bench.on_gpu.setup import Setup

AT_ONCE = 12  # processes that compile or check, each with a CUDA context of half a GB


def sections(setup: Setup) -> list[Section]:
    """Shares are the seconds that a run of 320 s gives them."""
    at_once = min(AT_ONCE, os.cpu_count() or 1)
    return [
        Section("machine", 10, {"machine": machine.describe}),
        Section("build", 45, prepare.parts(setup), at_once),
        Section("checks", 65, checks.parts(setup), at_once),
        Section("bandwidth", 70, bandwidth.parts(setup)),
        Section("decode", 60, decode.parts(setup)),
        Section("profile", 50, profile.parts(setup)),
        Section("swap", 20, swaps.parts(setup)),
    ]
