"""Paged attention in Triton: `kernels` is the device code, `tiles` its sizes, `backend` what the model calls."""
