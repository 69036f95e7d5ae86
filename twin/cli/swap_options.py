"""The link between device and host as a latency file knows it: the default of the swap options."""

from typing import TYPE_CHECKING, Any

from twin.cli.compose import Composed

if TYPE_CHECKING:
    from twin.latency.model import LatencyModel

LINK = ("bandwidth_gib_s", "per_copy_s")


def take_link(config: dict[str, Any], latency: "LatencyModel", composed: Composed) -> list[str]:
    """Fills in what the latency model's file measured of the link, where the command line gives neither; a note of it.

    A preset under which swapping is free (system=textbook) stays as it is.
    """
    link, swap = latency.describe().get("swap"), config["swap"]
    if not link or swap["bandwidth_gib_s"] is None or any(composed.given(f"swap.{name}") for name in LINK):
        return []
    swap |= {"bandwidth_gib_s": link.get("bandwidth_gib_s"), "per_copy_s": link.get("per_copy_s", 0.0)}
    rate = swap["bandwidth_gib_s"]
    taken = " ".join(f"swap.{name}={'null' if swap[name] is None else swap[name]}" for name in LINK)
    free = ": moving bytes took no time that could be measured" if rate is None else ""
    return [f"{taken}, as measured in the latency file{free}; each block counts as a copy"]
