"""What vLLM's own scheduler decides, run alone with a virtual clock and no model: the oracle of our rules.

vLLM is needed for it and for nothing else; it lives in an environment of its own (docs/vllm.md).
"""
