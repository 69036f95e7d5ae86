"""Published results, run again."""
