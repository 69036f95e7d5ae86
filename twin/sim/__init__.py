"""The discrete-event simulator: arrivals and a replica on simpy, around the scheduler of `twin.core`."""

from twin.sim.simulation import Outcome, Setup, Simulation, simulate
from twin.sim.swap_link import SwapCost

__all__ = ["Outcome", "Setup", "Simulation", "SwapCost", "simulate"]
