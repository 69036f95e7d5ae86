"""What a running vLLM says of itself: its start-up log, and the configuration in its /metrics."""
