"""Paged attention: one interface, several back ends."""
