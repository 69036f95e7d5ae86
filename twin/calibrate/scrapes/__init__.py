"""Scrapes of a vLLM's /metrics over time, and the calibrated simulator's figures beside them."""
