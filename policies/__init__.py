"""The built-in scheduling policies, one file each."""
