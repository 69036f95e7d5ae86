"""Policies with a mistake each, for the tests of twin check."""
