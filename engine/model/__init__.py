"""The transformer itself: configuration, weights, forward pass, tokenizer."""
