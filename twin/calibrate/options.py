"""What the command line says to `twin calibrate`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twin.calibrate.server.findings import Server


@dataclass(frozen=True)
class Options:
    """The options of one call. Both commands, `profile.main` and `requests.command.main`, take it and return the status.

    Each command has a table OWN, {option: (its default as text, what it is)}, whose words are not Hydra's, and SECTIONS,
    those parts of the configuration that it reads.
    """

    own: Mapping[str, str]  # the options of OWN as they were typed, or their defaults
    values: Mapping[str, Any]  # the composed configuration: model, gpu, parallel, scheduler, cache, latency, seed ...
    given: frozenset[str]  # keys that the command line or the server sets, "model" or "scheduler.max_num_seqs"
    command: str  # to paste into a shell again
    server: Server = Server()  # what of `values` is from the server's own words
