"""Ground truth: runs of a real vLLM, with every step on record, and how far the simulator is from them."""
