"""A real vLLM, started here with a scheduler that puts every step on record. Only child.py and scheduler.py need vLLM."""
