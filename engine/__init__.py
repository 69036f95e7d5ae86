"""The real engine: transformer models with a paged KV cache, driven by the scheduler core and the policies of `twin`."""
