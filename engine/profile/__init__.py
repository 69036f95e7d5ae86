"""Step times of the engine over a grid of batches: what a latency model is fitted to."""
