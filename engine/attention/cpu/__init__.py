"""Paged attention, and the other parts of a layer, in C++ for the CPU."""
