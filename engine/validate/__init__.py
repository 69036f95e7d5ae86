"""Validation: the same trace through the simulator and through the real engine, and how far they are apart."""
