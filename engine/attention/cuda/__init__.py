"""Paged decode in CUDA C++, with a plain C interface."""
