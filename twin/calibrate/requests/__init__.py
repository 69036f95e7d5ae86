"""From a served system's log of requests (arrivals, lengths, stamps; no step times) to a latency model."""
